"""A PostgreSQL server on a socket, for the tests of pricekit-sql and for `databases.py`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


class Server:
    """PostgreSQL in a folder of its own; `trust` for all but the user `guarded`, who has the password `open-sesame`."""

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="pricekit-sql-"))
        self.folder.chmod(0o777)
        self.data = self.folder / "data"
        self._run(
            "initdb", "-D", str(self.data), "-U", "shop", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8"
        )
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"local all guarded scram-sha-256\n{rules.read_text()}")
        self.start()
        self.execute(
            "CREATE ROLE guarded LOGIN PASSWORD 'open-sesame'", "GRANT ALL ON SCHEMA public TO guarded"
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-k {self.folder} -c listen_addresses="
        self._run(
            "pg_ctl", "-D", str(self.data), "-o", options, "-l", str(self.folder / "log"), "-w", "start"
        )

    def kill(self) -> None:
        """Kill the server and all its processes, as a power failure would."""
        leader = int((self.data / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["pgrep", "-P", str(leader)], capture_output=True, text=True, check=False)
        for process in [leader, *map(int, children.stdout.split())]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        while Path(f"/proc/{leader}").exists():
            time.sleep(0.01)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop it, and delete its folder."""
        self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, table: str, user: str = "shop", parameters: str = "") -> str:
        """Return the address of a table, with more parameters such as "&application_name=other"."""
        return f"postgresql://{user}@/postgres?host={self.folder}&table={table}{parameters}"

    def connect(self) -> Any:
        """Return a connection of ADBC, without transactions."""
        from adbc_driver_postgresql import dbapi

        return dbapi.connect(f"postgresql://shop@/postgres?host={self.folder}", autocommit=True)

    def execute(self, *statements: str) -> list[Any]:
        """Return the rows of the last statement."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str) -> None:
        words = [str(self.programs / program), *arguments]
        if os.getuid() == 0:  # which PostgreSQL refuses
            words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
        done = subprocess.run(
            words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        assert done.returncode == 0, done.stderr.decode()


def installed() -> Path | None:
    """Return the folder of initdb; that of Debian is not on the PATH."""
    if program := shutil.which("initdb"):
        return Path(program).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None
