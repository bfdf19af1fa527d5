"""A report owns its directory: foreign files are refused, its own are replaced, and a kill leaves no half of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.output import MANIFEST, PAGE, Output


def write(out: Path, *names: str, text: str = "new") -> None:
    with Output(out).writing() as folder:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)


def files(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} - {MANIFEST}


def test_old_files_of_its_own_are_replaced(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    write(out, PAGE, "plots/input-0.png", "plots/input-1.png", "tables/x.csv")
    write(out, PAGE, "plots/input-0.png", "compare.json", text="newer")
    assert files(out) == {PAGE, "plots/input-0.png", "compare.json"} and not (out / "tables").exists()
    assert (out / PAGE).read_text() == "newer"
    assert (out / MANIFEST).read_text().split() == ["compare.json", PAGE, "plots/input-0.png"]


@pytest.mark.parametrize("foreign", ["thesis.tex", "plots/mine.png", "sub/dir/file"])
def test_a_directory_with_foreign_files_is_refused_and_untouched(foreign: str, tmp_path: Path) -> None:
    for used in (tmp_path / "never", tmp_path / "before"):
        if used.name == "before":
            write(used, PAGE, "plots/input-0.png")
        (used / foreign).parent.mkdir(parents=True, exist_ok=True)
        (used / foreign).write_text("mine")
        before = files(used)
        with pytest.raises(UsageError, match="not of an earlier report") as caught:
            Output(used)
        assert foreign in str(caught.value) and "\n" not in str(caught.value) and files(used) == before


def test_links_are_foreign_and_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "keep").write_text("keep")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plots").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="holds plots"):
        Output(tmp_path / "out")


def test_a_manifest_cannot_lead_out_of_the_directory(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    write(tmp_path / "out", PAGE)
    with (tmp_path / "out" / MANIFEST).open("a") as stream:
        stream.write(f"../victim\n{victim}\n")
    write(tmp_path / "out", PAGE)
    assert victim.read_text() == "keep"


def test_a_failure_leaves_the_old_report_or_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for old in (False, True):
        with pytest.raises(RuntimeError), Output(out).writing() as folder:
            (folder / PAGE).write_text("half")
            raise RuntimeError
        assert out.exists() is old
        if not old:
            write(out, PAGE, "tables/x.csv", text="old")
    assert files(out) == {PAGE, "tables/x.csv"} and (out / PAGE).read_text() == "old"


def test_a_kill_at_any_step_leaves_no_page_beside_files_of_another_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies at the n-th change of the directory, for every n; then the next report succeeds."""

    class Killed(BaseException):
        pass

    left = 0

    def dying(real):  # type: ignore[no-untyped-def]
        def call(*arguments, **options):  # type: ignore[no-untyped-def]
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return real(*arguments, **options)

        return call

    seen = set()
    for step in range(30):
        out = tmp_path / str(step)
        write(out, PAGE, "tables/old.csv", "tables/x.csv", text="old")
        left = step
        with monkeypatch.context() as patched:
            for owner, name in ((os, "replace"), (Path, "unlink"), (Path, "rmdir")):
                patched.setattr(owner, name, dying(getattr(owner, name)))
            patched.setattr(shutil, "rmtree", lambda *a, **k: None)  # a killed process tidies nothing up
            try:
                write(out, PAGE, "tables/x.csv", "tables/new.csv", text="new")
                outcome = "done"
            except Killed:
                outcome = "killed"
        texts = {(out / name).read_text() for name in files(out) if ".frontier-oracle-" not in name}
        if (out / PAGE).exists():
            assert texts in ({"old"}, {"new"}), step
            assert (out / "tables" / ("old.csv" if texts == {"old"} else "new.csv")).exists()
        seen.add((outcome, (out / PAGE).exists()))
        write(out, PAGE, "tables/last.csv")
        assert files(out) == {PAGE, "tables/last.csv"}
        if outcome == "done":
            break
    assert seen == {("killed", True), ("killed", False), ("done", True)}


def test_what_cannot_be_made_is_found_before_the_input_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(UsageError, match="is a file, not a directory"):
            Output(out)
