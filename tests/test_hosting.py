"""What hosts read: hooks and workflow run the commands of the Makefile, and the package says what an index shows."""

import re
import tomllib

import yaml

from tests.conftest import ROOT


def test_hooks_run_the_commands_of_lint_and_fetch_nothing():
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert [one["repo"] for one in repositories] == ["local"]
    (lint,) = re.findall(r"^LINT := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    wanted = lint.replace("$(BIN)", ".venv/bin").split(" && ")
    assert [hook["entry"] for hook in repositories[0]["hooks"]] == wanted
    assert {hook["language"] for hook in repositories[0]["hooks"]} == {"system"}


def test_the_workflow_runs_what_must_pass_on_every_python_that_is_supported_and_may_only_read():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    supported = [one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert jobs["test"]["strategy"]["matrix"]["python"] == supported
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert runs == [".ci/run", "make docs"]
    for job in jobs.values():
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(r"actions/[\w-]+@v\d+\.\d+\.\d+", step["uses"])


def test_the_changelog_tells_the_version_that_the_package_has():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    told = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[{re.escape(project['version'])}\] - \d{{4}}-\d\d-\d\d$", told, re.MULTILINE)
    for title in re.findall(r"^## \[(.*?)\]", told, re.MULTILINE):
        assert f"\n[{title}]: https://" in told


def test_an_index_can_show_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert len(project["description"]) < 512
    assert "\n" not in project["description"]
    assert project["dynamic"] == ["readme"]  # of README.md, with whole addresses: hatch_build.py
    assert {"Homepage", "Documentation", "Issues", "Changelog"} <= project["urls"].keys()
    assert all(address.startswith("https://") for address in project["urls"].values())


def test_every_page_stands_in_the_navigation_once():
    told = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    pages = [page for section in told["nav"] for group in section.values() for one in group for page in one.values()]
    assert len(pages) == len(set(pages))
    docs = ROOT / "docs"
    there = {path.name for path in docs.glob("*.md")} | {"decisions/index.md"}
    assert set(pages) == there
    listed = {path.name for path in (docs / "decisions").glob("*.md")} - {"index.md"}
    index = (docs / "decisions" / "index.md").read_text("utf-8")
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == listed
