"""Clients of each protocol that send requests without a pause, until they are stopped."""

import threading

from .asking import CLIENTS
from .waiting import wait_for


class Traffic:
    """One thread per client. `answers` has the answers by protocol, `failures` the exceptions.

    with Traffic(server, ask) as traffic: ..., where `ask(client)` sends one request and returns the answer.
    """

    def __init__(self, server, ask, *, clients_each=1):
        self.ask, self.stopping = ask, threading.Event()
        self.clients = [kind(server) for kind in CLIENTS for _ in range(clients_each)]
        self.answers = {kind.protocol: [] for kind in CLIENTS}
        self.failures = []
        self.threads = [threading.Thread(target=self._work, args=(client,)) for client in self.clients]

    def _work(self, client):
        answers = self.answers[client.protocol]
        while not self.stopping.is_set():
            try:
                answers.append(self.ask(client))
            except Exception as failure:
                self.failures.append((client.protocol, repr(failure)))
                return

    def all(self):
        return [answer for answers in self.answers.values() for answer in answers]

    def more(self, count):
        """Waits for `count` more answers on each protocol."""
        before = {protocol: len(answers) for protocol, answers in self.answers.items()}

        def came():
            return self.failures or all(len(self.answers[name]) >= had + count for name, had in before.items())

        wait_for(f"{count} more answers on each protocol", came)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        for client in self.clients:
            client.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()
