"""Command that publishes a finished dataset: `trajmill push`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trajmill.app.console import notices, results
from trajmill.pipelines.run_record.endings import Code
from trajmill.schemas import ConfigError, ShardError

if TYPE_CHECKING:
    from trajmill.pipelines.publish.hub.push import FindingsError, Pushed

_SHOWN: Final = 20
_SHARDS: Final = "shards"


def push(
    shards: Annotated[str, typer.Argument(help="A run's folder, or the shards folder in it.")],
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The data set on the Hub.")],
    recipe: Annotated[
        str | None, typer.Option(help="The recipe that says what may be published; by default the run's.")
    ] = None,
    allow_finding: Annotated[
        list[str] | None, typer.Option(metavar="DIGEST", help="A finding that you looked at; may be given again.")
    ] = None,
    allow_findings: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="A file of such digests, one a line.")
    ] = None,
    write_findings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write what is found, for you to go through.")
    ] = None,
    revision: Annotated[str, typer.Option(help="The branch; it is made from main where there is none.")] = "main",
    tag: Annotated[str, typer.Option(help="A tag for the state that is pushed.")] = "",
    private: Annotated[
        bool | None, typer.Option("--private/--public", help="Of a data set that is made; the owner's default else.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace files that somebody else put in the place of ours.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and change nothing.")] = False,
) -> None:
    """Publish a finished dataset on the Hub in one commit. Only new or changed files are sent.

    The command refuses rows with a licence that the recipe does not release, screenshots unless the recipe releases
    them, and any file in which scrubbing or another scanner still finds a secret. The token is HF_TOKEN, or the one
    that `hf auth login` stored. Running the command again continues where it stopped.
    """
    from trajmill.pipelines.publish.hub.push import FindingsError, Request
    from trajmill.pipelines.publish.hub.push import push as pushed
    from trajmill.pipelines.publish.hub.repository import Repository
    from trajmill.pipelines.publish.hub.secret_scan import allowances, listing
    from trajmill.pipelines.storage.folders import Folder

    if write_findings is not None and write_findings.exists():
        raise ConfigError(f"{write_findings} is there, and is not replaced. Choose another --write-findings.")
    folder = Folder.named(shards)
    if (folder / _SHARDS).exists("manifest.json"):
        folder = folder / _SHARDS
    allowed = allowances(allow_finding or (), allow_findings or ())
    licences, images = _let_through(recipe, folder.path())
    request = Request(licences, allowed, images, private=private, tag=tag, replace=replace, dry_run=dry_run)
    try:
        done = pushed(folder, Repository(repository, revision), request, lambda line: notices().print(line))
    except FindingsError as error:
        if write_findings is not None:
            Folder(str(write_findings.parent)).write(write_findings.name, listing(error.found).encode(), private=True)
        _show_findings(error)
        notices().print_line(f"trajmill: {error}")
        raise typer.Exit(Code.DAMAGE) from None
    _show(done, dry_run=dry_run)


def _let_through(recipe: str | None, shards: str) -> tuple[frozenset[str], bool]:
    """Return the licences that a recipe allows to publish, and whether it allows screenshots.

    The recipe is the named one, or the one in the record of the run.

    Raises:
        ConfigError: There is no recipe.
    """
    from trajmill.pipelines.publish.licences import allowed_licences
    from trajmill.pipelines.recipe.recipe_file import load_recipe

    if recipe is not None:
        loaded = load_recipe(recipe)
        return allowed_licences(loaded.model_dump(mode="json")), loaded.card.images
    record = Path(shards).parent / "run.json"
    try:
        values: dict[str, Any] = json.loads(record.read_bytes())["recipe"]
        return allowed_licences(values), values["card"].get("images") is True
    except FileNotFoundError:
        raise ConfigError(
            f"{record} is not there: --recipe is needed to know which licences may be published."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ShardError(f"{record} cannot be read as the record of a run: {error}") from error


def _show_findings(error: FindingsError) -> None:
    """Print a line for each digest: its count, its kind and its first position, but never the secret itself."""
    console = notices()
    times = Counter(finding.digest for finding in error.found)
    first = {finding.digest: finding for finding in reversed(error.found)}
    for digest, count in list(times.items())[:_SHOWN]:
        example = first[digest]
        more = f", and {count - 1:,} more times" if count > 1 else ""
        console.print_line(f"{digest}  {example.kind}: {example.place}{more}")
    if len(times) > _SHOWN:
        console.print_line(f"… and {len(times) - _SHOWN:,} more digests: --write-findings FILE has all")


def _show(done: Pushed, *, dry_run: bool) -> None:
    console = results()
    size = sum(done.sent.values())
    verb = "would be " if dry_run else ""
    if done.made:
        console.print_line(f"{verb}made: {done.url}")
    console.print(f"{verb}sent: {len(done.sent):,} files, {size / 1e6:,.1f} MB; there already: {done.standing:,}")
    for name in sorted(done.sent) if dry_run else ():
        console.print_line(f"  {name}")
    if done.removed:
        console.print_line(f"{verb}removed: {', '.join(done.removed)}")
    if done.allowed:
        console.print(f"allowed findings: {done.allowed:,}")
    if done.tag:
        console.print_line(f"{verb}tagged: {done.tag}")
    if done.commit:
        console.print_line(f"{done.url}/tree/{done.commit}")
