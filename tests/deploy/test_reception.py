"""Who is let in, and what the others are told."""

from __future__ import annotations

import msgspec
import pytest

import undrift as ud
from undrift.deploy.contract import Contract
from undrift.deploy.frames import PROTOCOL, Hello, Refused, Terms, Welcome
from undrift.deploy.reception import Reception

CONTRACT = Contract(PROTOCOL, "1.0", {}, ["a", "b"], False, {})


def hall(**arguments):
    def check(site, facts):
        if facts == b"wrong":
            raise ud.InputError("these data do not fit")

    return Reception(CONTRACT, check, **arguments)


def hello(**changes):
    given = {"protocol": PROTOCOL, "undrift": "1.0", "contract": CONTRACT.hash, "state": "A", "reset": False}
    return Hello(**{**given, "facts": b"facts", **changes})


def test_who_asks_is_shown_the_contract():
    assert hall().greet("a", hello(contract="")) == (Terms(CONTRACT.document()), False)


def test_until_all_are_there_nobody_takes_part():
    assert hall().greet("a", hello()) == (Welcome(0, False, b""), False)
    assert hall(population=b"all").greet("b", hello()) == (Welcome(1, False, b"all"), True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": 2}, "install the same version"),
        ({"undrift": "0.9"}, "install the same version"),
        ({"contract": "0" * 64}, "accepted the contract 0000000000000000"),
        ({"facts": b"wrong"}, "do not fit"),
        ({"facts": b"others"}, "look different"),
        ({"state": "B"}, "lost its memory.*--reset"),
    ],
    ids=str,
)
def test_refused(changes, words):
    reception = hall(population=b"all", with_memory={"a"}, states={"a": "A"}, facts={"a": b"facts"})
    reply, taken = reception.greet("a", hello(**changes))
    assert isinstance(reply, Refused)
    assert not taken
    with pytest.raises(ud.InputError, match=words):
        raise ud.InputError(reply.reason)
    assert (reception.states, reception.facts) == ({"a": "A"}, {"a": b"facts"}), "who is refused changes nothing"


@pytest.mark.parametrize("state", ["A", "B"])
def test_a_reset_is_taken_once_and_told(state):
    """Also with the old directory: what is in it may be damaged."""
    reception = hall(population=b"all", with_memory={"a"}, states={"a": "A"})
    assert reception.greet("a", hello(state=state, reset=True)) == (Welcome(0, True, b"all"), True)
    assert reception.with_memory == set()
    assert reception.greet("a", hello(state=state)) == (Welcome(0, False, b"all"), True)


def test_data_can_be_corrected_until_the_run_begins():
    reception = hall(facts={"a": b"first"})
    assert reception.greet("a", hello(facts=b"second")) == (Welcome(0, False, b""), False)
    assert reception.facts == {"a": b"second"}


def test_a_reset_that_is_refused_for_its_data_is_not_used_up():
    reception = hall(population=b"all", with_memory={"a"}, states={"a": "A"}, facts={"a": b"facts"})
    assert isinstance(reception.greet("a", hello(state="B", reset=True, facts=b"others"))[0], Refused)
    assert reception.greet("a", hello(state="B", reset=True)) == (Welcome(0, True, b"all"), True)


@pytest.mark.parametrize("where", ["undrift", "sites", "code"])
def test_a_contract_cannot_draw_on_the_screen_of_who_reads_it(where):
    wrong = {"undrift": "1\x1b[2J", "sites": ["a\nContract 1234"], "code": {"x.py\r": "0"}}[where]
    document = msgspec.structs.replace(CONTRACT, **{where: wrong}).document()
    with pytest.raises(ud.InputError, match="short and printable"):
        Contract.read(document)


def test_nothing_is_lost_before_there_is_a_memory():
    assert hall(population=b"all", states={"a": "A"}).greet("a", hello(state="B"))[1]
