"""Counts per user what a strict limit admitted, to compare it with the limit at the end."""

import collections

from .waiting import wait_for


class Tally:
    """Sends requests to the rules `strict` and `served` in turns. `strict` has `limit` per user, `served` never denies."""

    def __init__(self, limit, users):
        self.limit, self.users = limit, list(users)
        self.passed, self.undecided = collections.Counter(), collections.Counter()
        self.served, self.degraded, self.slowest_s = 0, 0, 0.0

    def ask(self, client, number):
        """Sends one request. Even numbers go to `strict`, odd numbers to `served`."""
        user = self.users[number // 2 % len(self.users)]
        if number % 2 == 0:
            return self.strict(client, user)
        answer = client.ask({"by": "served", "user": user})
        assert answer.passes, answer
        self.served += 1
        self.degraded += answer.degraded
        self.slowest_s = max(self.slowest_s, answer.seconds)
        return answer

    def strict(self, client, user, cost=1):
        """Passes only if the store has counted it. The store may have counted a request that it did not decide in time."""
        answer = client.ask({"by": "strict", "user": user}, cost=cost)
        assert answer.status in (200, 429, 503), answer
        self.passed[user] += cost * answer.passes
        self.undecided[user] += cost * (answer.status == 503)
        self.slowest_s = max(self.slowest_s, answer.seconds)
        return answer

    def use_up(self, running):
        """Sends requests until every server denies every user, so that each limit is used up."""
        clients = running.clients(len(running.servers))
        try:
            for place, user in enumerate(self.users):
                client = clients[place % len(clients)]
                wait_for(f"{user} is over the limit", lambda client=client, user=user: self._is_over(client, user))
                for other in clients:
                    assert self.strict(other, user).status == 429, "every server denies"
        finally:
            for client in clients:
                client.close()

    def _is_over(self, client, user):
        answer = self.strict(client, user)
        if answer.passes and (rest := answer.body["remaining"]):
            # No other client runs, so `remaining` is exact.
            assert self.strict(client, user, cost=rest).status in (200, 503)
        return answer.status == 429

    def assert_is_bounded(self, what, *, losses=0):
        """At most the limit passed, plus the limit once for each loss of state; and at least the limit minus the undecided."""
        over = [self.passed[user] - self.limit for user in self.users if self.passed[user] > self.limit]
        missing = sum(max(0, self.limit - self.passed[user]) for user in self.users)
        print(
            f"\n{what}: over-admission {sum(over)} of {self.limit * len(self.users)} (per key at most"
            f" {max(over, default=0)} of {self.limit}), {missing} fewer, {sum(self.undecided.values())} undecided;"
            f" {self.degraded} of {self.served} others decided without the store; slowest answer {self.slowest_s:.3f} s"
        )
        for user in self.users:
            assert self.passed[user] <= self.limit * (1 + losses), (user, self.passed[user])
            assert self.passed[user] >= self.limit - self.undecided[user], (user, self.passed[user], self.undecided[user])
