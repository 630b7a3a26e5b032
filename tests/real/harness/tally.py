"""What passed of a strict limit, user by user, so that it can be compared with the limit at the end."""

import collections

from .waiting import wait_for


class Tally:
    """Asks for what the rule `strict` limits, and for what `served` never does, in turns. `limit` is each user's."""

    def __init__(self, limit, users):
        self.limit, self.users = limit, list(users)
        self.passed, self.undecided = collections.Counter(), collections.Counter()
        self.served, self.degraded, self.slowest_s = 0, 0, 0.0

    def ask(self, client, number):
        """In turns, by the number of the request."""
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
        """Passes if the store has counted it. What it did not decide in time, it may have counted or not."""
        answer = client.ask({"by": "strict", "user": user}, cost=cost)
        assert answer.status in (200, 429, 503), answer
        self.passed[user] += cost * answer.passes
        self.undecided[user] += cost * (answer.status == 503)
        self.slowest_s = max(self.slowest_s, answer.seconds)
        return answer

    def use_up(self, running):
        """Until every user is denied by every server, so that all that can pass has passed."""
        clients = running.clients(len(running.servers))
        try:
            for place, user in enumerate(self.users):
                client = clients[place % len(clients)]
                wait_for(f"{user} is over", lambda client=client, user=user: self._is_over(client, user))
                for other in clients:
                    assert self.strict(other, user).status == 429, "for all of them"
        finally:
            for client in clients:
                client.close()

    def _is_over(self, client, user):
        answer = self.strict(client, user)
        if answer.passes and (rest := answer.body["remaining"]):
            # Nobody else asks, so what is said to remain is there.
            assert self.strict(client, user, cost=rest).status in (200, 503)
        return answer.status == 429

    def assert_is_bounded(self, what, *, losses=0):
        """No more passed than the limit, and for each loss of state once more; no fewer but for what was not decided."""
        over = [self.passed[user] - self.limit for user in self.users if self.passed[user] > self.limit]
        missing = sum(max(0, self.limit - self.passed[user]) for user in self.users)
        print(
            f"\n{what}: over-admission {sum(over)} of {self.limit * len(self.users)} (of one key at most"
            f" {max(over, default=0)} of {self.limit}), {missing} fewer, {sum(self.undecided.values())} undecided;"
            f" {self.degraded} of {self.served} others decided without the store; slowest answer {self.slowest_s:.3f} s"
        )
        for user in self.users:
            assert self.passed[user] <= self.limit * (1 + losses), (user, self.passed[user])
            assert self.passed[user] >= self.limit - self.undecided[user], (user, self.passed[user], self.undecided[user])
