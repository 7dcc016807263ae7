"""`orderless data`: the public benchmark sets: what there is, what is here, and fetching them."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orderless.bench.datasets.catalogue import Entry

EXAMPLES = """\
  orderless data list
  orderless data list Weather
  orderless data get ETTh1 ETTm1
  orderless data check ETTh1
  orderless data pack ETTh1 Weather --to FOLDER"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, and with which sets."""
    parser.add_argument(
        "action",
        choices=("list", "get", "check", "pack"),
        help="show sets, fetch them, compare their files with known checksums, or write them so "
        "that NumPy alone can read them",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="sets; `list` shows all without")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="where `pack` writes")


def run(arguments: argparse.Namespace) -> int:
    """List the catalogue, fetch what is missing, check what is there, or pack it."""
    from orderless.bench.datasets.catalogue import CATALOGUE, data_folder, find_entry
    from orderless.errors import SettingError

    if arguments.action == "list":
        print(f"data folder: {data_folder()} (ORDERLESS_DATA names another)")
        if not arguments.names:
            _print_table(tuple(CATALOGUE.values()))
        for name in arguments.names:
            _print_entry(find_entry(name))
        return 0
    if not arguments.names:
        raise SettingError(f"Name the sets: `orderless data {arguments.action} ETTh1`.")
    if arguments.action == "pack":
        from orderless.bench.datasets.readers import pack

        if arguments.to is None:
            raise SettingError("Name the folder to pack to: `--to FOLDER`.")
        for name in arguments.names:
            for path in pack(name, arguments.to):
                print(path)
        return 0
    if arguments.action == "check":
        return _check([find_entry(name) for name in arguments.names])
    from orderless.bench.datasets.download import digest, get

    for entry in [find_entry(name) for name in arguments.names]:
        shown = sys.stderr.isatty()
        paths = get(entry, progress=_show_progress if shown else None)
        for path, original in zip(paths, entry.originals, strict=True):
            print(path)
            if original.known is None:
                print(f"  not verified, since no checksum is known; it has {digest(path)}")
        if shown:
            print(file=sys.stderr)
    return 0


def interrupted(arguments: argparse.Namespace) -> str:
    """What is left after Ctrl-C."""
    return "what has arrived is kept, and the same command continues it"


def _check(entries: "list[Entry]") -> int:
    """Compare files with their known sizes and checksums; 1 where one differs or is not there."""
    from orderless.bench.datasets.catalogue import data_folder, files_there, known_files
    from orderless.bench.datasets.download import matches

    wrong = 0
    for entry in entries:
        paths = files_there(entry)
        if not paths:
            print(f"{entry.name}: not here")
        for path in paths:
            known = known_files().get(path.relative_to(data_folder()).as_posix())
            holds = known is None or matches(path, known)
            words = "no checksum is known" if known is None else "as known" if holds else "DIFFERS"
            print(f"{path}: {words}")
            wrong += not holds
        wrong += not paths
    return 1 if wrong else 0


def _print_table(entries: "tuple[Entry, ...]") -> None:
    from orderless.bench.datasets.catalogue import files_there

    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        there = files_there(entry)
        count = len(entry.prepared)
        machines = entry.some and there and there[0].suffix == ".npz"
        partly = machines and len(there) < count
        here = f"{len(there)} of {count}" if partly else "here" if there else "-"
        print(f"{entry.name:<{width}}  {here:<8}  {entry.task:<14}  {entry.licence}")


def _show_progress(name: str, there: int, total: int | None) -> None:
    of = "" if total is None else f" of {total / 1e6:.1f}"
    print(f"\r{name}: {there / 1e6:.1f}{of} MB", end="", file=sys.stderr, flush=True)


def _print_entry(entry: "Entry") -> None:
    from orderless.bench.datasets.catalogue import files_there

    there = files_there(entry)
    print(f"\n{entry.name}: {entry.task}, {entry.variables} variables")
    print(f"  licence   {entry.licence}")
    print(f"  split     {entry.split}")
    if entry.traps:
        print(f"  mind      {entry.traps}")
    if entry.permission:
        print(f"  get it    {entry.permission}")
    for original in entry.originals:
        if original.address:
            print(f"  from      {original.address}")
            print(
                f"            {original.known.checksum if original.known else 'checksum unknown'}"
            )
    print(f"  here      {', '.join(map(str, there)) or 'no'}")
