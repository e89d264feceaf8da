"""Routing against the slowest thing that could work: every binding asked, one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mainstem.kernel.routing.binding import Binding, Target
from mainstem.kernel.routing.router import Router
from mainstem.kernel.routing.topic_trie import Topic


def words_match(pattern, words):
    """What `*` and `#` mean, in the shortest way to say it."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return words_match(pattern[1:], words) or bool(words and words_match(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and words_match(pattern[1:], words[1:])


def topic_matches(pattern, key):
    return words_match(pattern.split(".") if pattern else [], key.split(".") if key else [])


WORDS = st.sampled_from(["", "a", "b", "*", "#", "a*"])
KEYS = st.lists(WORDS, max_size=5).map(".".join)


def bound(pattern):
    return Binding("e", Target("queue", pattern), pattern)


@settings(max_examples=400, deadline=None)
@given(st.lists(KEYS, max_size=12, unique=True), st.sets(st.integers(0, 11)), st.lists(KEYS, max_size=8))
def test_a_topic_exchange_finds_what_trying_each_pattern_finds(patterns, removed, keys):
    topic = Topic()
    for pattern in patterns:
        topic.add(bound(pattern))
    gone = [pattern for number, pattern in enumerate(patterns) if number in removed]
    for pattern in gone:
        topic.remove(bound(pattern))
    kept = set(patterns) - set(gone)
    assert {one.key for one in topic} == kept
    for key in keys:
        assert {one.key for one in topic.match([key], {})} == {one for one in kept if topic_matches(one, key)}


NAMES = ["d", "f", "t", "h", "t2", "f2"]
KINDS = {"d": "direct", "f": "fanout", "t": "topic", "h": "headers", "t2": "topic", "f2": "fanout"}
QUEUES = ["q1", "q2", "q3", "a"]
VALUES = st.sampled_from([0, 1, True, False, 1.0, "1", b"1", "", None, [1], [True], {"n": 1}])
HEADERS = st.dictionaries(st.sampled_from(["a", "b", "x-a"]), VALUES, max_size=3)
MODES = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])
ARGUMENTS = st.tuples(MODES, HEADERS).map(
    lambda pair: pair[1] if pair[0] is None else {"x-match": pair[0], **pair[1]}
)
TARGETS = st.one_of(
    st.sampled_from(QUEUES).map(lambda name: Target("queue", name)),
    st.sampled_from(NAMES).map(lambda name: Target("exchange", name)),
)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def same(one, other):
    one, other = text(one), text(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return one == other


def headers_match(arguments, headers):
    mode = arguments.get("x-match", "all")
    asked = {
        name: value
        for name, value in arguments.items()
        if name != "x-match" and ("with-x" in mode or not name.startswith("x-"))
    }
    results = [
        name in headers and (value is None or same(value, headers[name])) for name, value in asked.items()
    ]
    return any(results) if mode.startswith("any") else all(results)


def binding_matches(kind, key, arguments, message_key, headers):
    if kind == "direct":
        return key == message_key
    if kind == "topic":
        return topic_matches(key, message_key)
    return kind == "fanout" or headers_match(arguments, headers)


class Model:
    """Exchanges with their alternates, and a plain list of bindings."""

    def __init__(self):
        self.alternates = {}
        self.bindings = []

    def find(self, source, target, key, arguments):
        for one in self.bindings:
            if one[:3] == (source, target, key) and same(one[3], arguments):
                return one
        return None

    def route(self, exchange, keys, headers, seen=()):
        if exchange == "":
            return {key for key in keys if key in QUEUES}
        if exchange in seen or exchange not in self.alternates:
            return set()
        targets = [
            target
            for source, target, key, arguments in self.bindings
            if source == exchange
            for one in keys
            if binding_matches(KINDS[exchange], key, arguments, one, headers)
        ]
        if not targets and self.alternates[exchange] is not None:
            targets = [Target("exchange", self.alternates[exchange])]
        queues = {target.name for target in targets if target.kind == "queue"}
        for target in targets:
            if target.kind == "exchange":
                queues |= self.route(target.name, keys, headers, (*seen, exchange))
        return queues


class RouterMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.router = Router(is_queue=QUEUES.__contains__)
        self.model = Model()

    @rule(name=st.sampled_from(NAMES), alternate=st.sampled_from([None, None, "", *NAMES]))
    def declare(self, name, alternate):
        if name in self.model.alternates:
            self.router.set_alternate(name, alternate)
        else:
            self.router.add_exchange(name, KINDS[name], alternate)
        self.model.alternates[name] = alternate

    @precondition(lambda self: self.model.alternates)
    @rule(data=st.data(), leads_to=TARGETS, key=KEYS, arguments=ARGUMENTS)
    def bind(self, data, leads_to, key, arguments):
        source = data.draw(st.sampled_from(sorted(self.model.alternates)))
        if leads_to.kind == "exchange" and leads_to.name not in self.model.alternates:
            return
        new = self.model.find(source, leads_to, key, arguments) is None
        assert self.router.bind(source, leads_to, key, arguments) is new
        if new:
            self.model.bindings.append((source, leads_to, key, arguments))

    @precondition(lambda self: self.model.bindings)
    @rule(data=st.data())
    def unbind(self, data):
        one = data.draw(st.sampled_from(self.model.bindings))
        assert self.router.unbind(*one)
        assert not self.router.unbind(*one)
        self.model.bindings.remove(self.model.find(*one))

    @rule(queue=st.sampled_from(QUEUES))
    def remove_queue(self, queue):
        target = Target("queue", queue)
        gone = self.router.remove_queue(queue)
        assert len(gone) == sum(one[1] == target for one in self.model.bindings)
        self.model.bindings = [one for one in self.model.bindings if one[1] != target]

    @precondition(lambda self: self.model.alternates)
    @rule(data=st.data())
    def remove_exchange(self, data):
        name = data.draw(st.sampled_from(sorted(self.model.alternates)))
        target = Target("exchange", name)
        kept = [one for one in self.model.bindings if one[0] != name and one[1] != target]
        assert len(self.router.remove_exchange(name)) == len(self.model.bindings) - len(kept)
        self.model.bindings = kept
        del self.model.alternates[name]

    @rule(keys=st.lists(KEYS, min_size=1, max_size=3), headers=HEADERS)
    def route(self, keys, headers):
        for name in ["", *self.model.alternates]:
            found = self.router.route(name, keys, headers)
            assert found == self.model.route(name, keys, headers)
            if not self.router.depends_on_headers(name):
                assert found == self.router.route(name, keys, None)

    @invariant()
    def lists_what_is_bound(self):
        listed = list(self.router.bindings())
        assert len(listed) == len(self.model.bindings)
        assert all(self.model.find(*one[:3], dict(one.arguments)) for one in listed)
        for name in self.model.alternates:
            count = sum(one[0] == name for one in self.model.bindings)
            assert len(self.router.bindings_from(name)) == count
            assert self.router.has_bindings(name) is (count > 0)
        for queue in QUEUES:
            count = sum(one[1] == ("queue", queue) for one in self.model.bindings)
            assert len(self.router.bindings_of(queue)) == count


RouterMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRouterMachine = RouterMachine.TestCase
