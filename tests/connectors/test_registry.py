import pickle
import subprocess
import sys

from tests.conftest import ROOT
from trajmill.connectors.connector import Connector
from trajmill.connectors.registry import FORMATS, connectors, joining, version_of

FIXTURES = ROOT / "tests" / "fixtures"


def test_what_the_registry_says_of_a_format_is_what_its_connector_says():
    for name, told in FORMATS.items():
        one = connectors()[name]
        assert (one.name, one.version) == (name, told.version), "name and version stand in the registry too"
        joins = type(one).join is not Connector.join or type(one).answers is not Connector.answers
        assert joins == bool(told.ends), f"{name}: a format joins files exactly if `ends` says of which names"
        assert all(end == end.lower() for end in told.ends)


def test_what_joins_the_files_of_a_fixture_is_asked_to():
    asked = 0
    for folder in sorted(path for path in FIXTURES.glob("*/*/*") if path.is_dir()):
        paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        for some in (paths, [f"deep/er/{path}" for path in paths]):
            could = {one.name for one in joining(connectors(), some)}
            for name, one in connectors().items():
                logs = list(one.join(some))
                asked += len(logs)
                assert not logs or name in could, (folder, name)
                for log in logs:
                    own = sorted(log.members.values())
                    assert name in {one.name for one in joining(connectors(), own)}, "each log holds such a file"
    assert asked > 100


def test_a_connector_is_loaded_when_it_is_taken_and_not_before():
    code = (
        "import sys\n"
        "from trajmill.connectors.registry import FORMATS, connectors, joining, version_of\n"
        "known = connectors()\n"
        "assert 'har' in known and len(known) >= len(FORMATS) and list(joining(known, ['a/b.txt'])) == []\n"
        "assert version_of('har', known) == FORMATS['har'].version and 'nothing' not in known\n"
        "assert not {one.module for one in FORMATS.values()} & sys.modules.keys()\n"
        "assert [one.name for one in joining(known, ['a/B.HAR'])] == ['har'] and known.is_loaded('har')\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_connectors_are_the_same_in_another_process():
    assert pickle.loads(pickle.dumps(connectors())) is connectors()


def test_a_version_that_a_class_has_now_counts(monkeypatch):
    monkeypatch.setattr(type(connectors()["har"]), "version", "next")
    assert version_of("har", connectors()) == "next"
