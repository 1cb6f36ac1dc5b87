"""Files at a vendor: bytes on disk, named by the vendor's id."""

from dataclasses import dataclass, field
from pathlib import Path

from hab_simulator.truth.draws import number


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file; `created` by the vendor's clock. `made_by` is the batch it holds the results of."""

    id: str
    account: str
    name: str
    purpose: str
    created: float
    path: Path
    made_by: str | None = None

    @property
    def size(self) -> int:
        return self.path.stat().st_size


@dataclass(slots=True)
class FileStore:
    """All files of one simulator, oldest first, below `folder`."""

    seed: int
    folder: Path
    _files: dict[tuple[str, str], StoredFile] = field(default_factory=dict)
    _count: int = 0

    def fresh(self) -> tuple[str, Path]:
        """A new id of 24 hexadecimal digits, and a place to write to."""
        self._count += 1
        name = f"{number(self.seed, 'file', self._count):016x}{self._count:08x}"
        return name, self.folder / name

    def add(self, file: StoredFile) -> None:
        self._files[file.account, file.id] = file

    def find(self, account: str, name: str) -> StoredFile | None:
        return self._files.get((account, name))

    def delete(self, account: str, name: str) -> StoredFile | None:
        """Remove a file; None where there is none. What a batch has read of it stays with the batch."""
        file = self._files.pop((account, name), None)
        if file is not None:
            file.path.unlink(missing_ok=True)
        return file
