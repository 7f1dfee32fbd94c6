"""Opcodes, attributes and fields of protos that the XLA that is installed knows are known here."""

import pytest
from refxla_conformance.targets.child import Child
from refxla_conformance.targets.private import environment, missing, version
from refxla_conformance.xla_vocabulary import library
from refxla_conformance.xla_vocabulary import missing as vocabulary
from refxla_spec.releases import NEWEST, release_of

pytestmark = pytest.mark.skipif(
    bool(missing()) or release_of(version()) != NEWEST, reason=missing() or f"jaxlib {version()} is an older one"
)


@pytest.fixture(scope="module")
def child():
    child = Child("refxla_conformance.xla_vocabulary.worker", environment())
    yield child
    child.close()


def test_every_field_that_xla_has_is_in_the_schema():
    assert len(library.messages()) > 70
    assert vocabulary.fields() == []


def test_a_field_that_is_missing_is_found():
    field = library.messages()[".xla.HloModuleProto"].field.add(name="novel", number=999)
    try:
        assert vocabulary.fields() == ["HloModuleProto: field 999 is novel, here None"]
    finally:
        library.messages()[".xla.HloModuleProto"].field.remove(field)


def test_every_opcode_that_xla_has_is_in_the_grammar(child, monkeypatch):
    assert vocabulary.opcodes(child) == []
    monkeypatch.setattr("refxla_spec.grammar.OPCODES", vocabulary.grammar.OPCODES - {"collective-reduce"})
    assert vocabulary.opcodes(child) == ["collective-reduce"]


@pytest.mark.parametrize("opcode", ["compare", "dot"])
def test_every_attribute_that_xla_takes_is_declared(opcode, child):
    assert vocabulary.attributes(child, opcode) == []
