"""The commands of templates: `trajmill template build | run | launch`."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from trajmill.app.console import notices, results

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

template = typer.Typer(
    name="template", help="Templates of Dataflow: see docs/engines.md.", no_args_is_help=True, add_completion=False
)


@template.command()
def build(
    folder: Annotated[str, typer.Argument(help="The folder that is written: a path or a URL.")],
    image: Annotated[str, typer.Option(help="How the image is called, with a tag.")],
    launcher: Annotated[str, typer.Option(help="The image with Google's launcher, as its documentation names it.")],
    add: Annotated[
        list[str] | None, typer.Option("--file", help="What recipes name: it goes into the image, to /template/files.")
    ] = None,
    do: Annotated[bool, typer.Option("--do", help="Run the commands that make the image and push it, too.")] = False,
) -> None:
    """Write what an image and templates are made of, and say how they are made of it."""
    from trajmill.app.cli.flex_templates.building import build as write
    from trajmill.app.cli.flex_templates.building import run_commands

    built = write(folder, image, launcher, add or [])
    console = results()
    console.print(f"written below {folder}: {', '.join(built.names)}", soft_wrap=True)
    for command in run_commands(built) if do else built.commands:
        console.print(shlex.join(command), soft_wrap=True)


@template.command(context_settings=_PASS_ON)
def run(
    context: typer.Context,
    folder: Annotated[str, typer.Argument(help="The folder that was written, in a bucket.")],
    only: Annotated[str | None, typer.Option(help="Launch the template of this stage, and do not wait.")] = None,
) -> None:
    """Launch templates, one after the other, until the run is finished.

    Parameters are given as metadata.json names them (--config=android --raw=gs://… --out=gs://… --max_hours=2); other
    flags go to Beam's PipelineOptions.
    """
    from trajmill.app.cli.flex_templates.running import Templates

    console = results()
    templates = Templates(folder, context.args)
    if only is not None:
        console.print(f"{only}: {templates.launch(only).id}")
        return
    done = templates.run(lambda job: notices().print(f"{job.stage}: {job.id}"))
    for job in done:
        console.print(f"{job.stage}: {job.id}, {job.hours:.2f} hours")


@template.command(context_settings=_PASS_ON)
def launch(context: typer.Context) -> None:
    """What the machine of a template runs: a stage's work up to its first open job, which is submitted and left."""
    from trajmill.app.cli.flex_templates.launching import launch as do

    done = do(context.args)
    if done.ignored:
        notices().print(f"left out, since nobody knows it: {' '.join(done.ignored)}", soft_wrap=True)
    what = f"a job of {done.stage}" if done.submitted else "a job that does nothing, since none is open"
    results().print(f"submitted {what}; next: {done.next}", soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.add_typer(template)
