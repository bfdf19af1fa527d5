"""A report owns its directory: it is written aside and moved in, and what an earlier report left is replaced."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from frontier_oracle.oracle.errors import UsageError

MANIFEST = ".frontier-oracle-report"
"""In a report's directory: the files that are its own, one path a line."""
PAGE = "index.html"
_STAGE = ".frontier-oracle-new-"


class Output:
    """The directory ``out``. Made on entry to ``writing`` if absent. UsageError if it cannot be, or if it holds a file
    that no report put there: that is found out here, before the input is read."""

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out)
        self.own = self._listed()
        there = next(path for path in (self.out, *self.out.absolute().parents) if path.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            why = "is not writable" if there.is_dir() else "is a file, not a directory"
            raise UsageError(f"{self.out}: cannot be made, {there} {why}; give another directory with -o")
        foreign = next((path for path in self._files() if path not in self.own), None)
        if foreign is not None:
            raise UsageError(
                f"{self.out}: holds {foreign}, which is not of an earlier report; give a new or empty directory with -o"
            )

    def _listed(self) -> set[str]:
        """The manifest's files; lines that lead out of the directory are none."""
        try:
            lines = (self.out / MANIFEST).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return set()
        return {
            MANIFEST,
            *(line for line in lines if line and not Path(line).is_absolute() and ".." not in Path(line).parts),
        }

    def _files(self) -> Iterator[str]:
        """Files and links below the directory, relative; what a killed run staged is not told."""
        for folder, folders, names in os.walk(self.out):
            folders[:] = [name for name in folders if not name.startswith(_STAGE)]
            links = [name for name in folders if Path(folder, name).is_symlink()]
            yield from (os.path.relpath(Path(folder, name), self.out) for name in [*names, *links])

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """An empty folder to write into. Its files become the report when the block ends, and vanish if it fails.

        The page is removed first and comes last: a run that is killed leaves the old report, the new one, or a
        directory without a page, never a page beside other files than its own.
        """
        stage = self.out / f"{_STAGE}{uuid.uuid4().hex[:12]}"
        try:
            made = not self.out.exists()
            stage.mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"{self.out}: cannot be made ({error.strerror}); give another directory with -o") from None
        try:
            yield stage
            self._move_in(stage)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
            if made and not any(self.out.iterdir()):
                self.out.rmdir()

    def _move_in(self, stage: Path) -> None:
        new = sorted(
            (os.path.relpath(Path(folder, name), stage) for folder, _, names in os.walk(stage) for name in names),
            key=lambda path: (path == PAGE, path),
        )
        old = self.own - {MANIFEST}
        self._list({*old, *new}, stage)  # whatever happens from here on, every file there is known as a report's own
        for path in sorted(old, key=lambda path: path != PAGE):
            (self.out / path).unlink(missing_ok=True)
        for folder in {str(Path(path).parent) for path in old} - {"."}:
            with suppress(OSError):
                (self.out / folder).rmdir()
        for path in new:
            (self.out / path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(stage / path, self.out / path)
        self._list(set(new), stage)
        for left in self.out.glob(f"{_STAGE}*"):
            shutil.rmtree(left, ignore_errors=True)

    def _list(self, paths: set[str], stage: Path) -> None:
        (stage / MANIFEST).write_text("".join(f"{path}\n" for path in sorted(paths)), encoding="utf-8")
        os.replace(stage / MANIFEST, self.out / MANIFEST)
