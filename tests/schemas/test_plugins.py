"""Classes of other packages, named by entry points."""

from importlib.metadata import EntryPoint

import pytest

from trajmill.connectors.connector import Connector
from trajmill.schemas import ConfigError
from trajmill.schemas.plugins import plugins


def install(monkeypatch, **values):
    points = [EntryPoint(name, value, "trajmill.connectors") for name, value in values.items()]
    monkeypatch.setattr("trajmill.schemas.plugins.entry_points", lambda group: points)


def test_a_plugin_that_cannot_be_loaded_costs_only_itself(monkeypatch):
    install(monkeypatch, old="connectors_of_old.log:Log", har="trajmill.connectors.web.har:Har")
    with pytest.warns(UserWarning, match="'old'"):
        found = [(point.name, kind.name) for point, kind in plugins("trajmill.connectors", Connector)]  # type: ignore[type-abstract]
    assert found == [("har", "har")]


def test_an_entry_point_that_names_something_else_is_refused(monkeypatch):
    install(monkeypatch, path="pathlib:Path")
    with pytest.raises(ConfigError):
        list(plugins("trajmill.connectors", Connector))  # type: ignore[type-abstract]
