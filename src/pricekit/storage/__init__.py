"""Local paths, remote addresses, and standard input and output, treated alike.

It is below `table`, so that everything that reads or writes tables can use it:

    address.py    Location: a local path or an Address such as s3://bucket/new.csv; `location_of` reads a user's text
    connect.py    the fsspec file system of an address; repeated calls; errors in one sentence
    listing.py    what exists, files of a folder or a pattern, sizes, fingerprints
    local.py      a local copy to read; a local file to write, which then appears at the location as a whole; the
                  cache folder, and in it the local place of a remote output's lock and checkpoint
"""

from pricekit.storage.address import Address, Location, is_remote, location_of
from pricekit.storage.listing import (
    check_bucket,
    exists,
    files_below,
    fingerprint,
    fingerprints_below,
    for_all,
    is_folder,
    is_pattern,
    matching,
    size_of,
    split_pattern,
)
from pricekit.storage.local import (
    Copy,
    Part,
    cache_folder,
    delete,
    download,
    fetch,
    published,
    read_text,
    working_path,
    write_text,
)

__all__ = [
    "Address",
    "Copy",
    "Location",
    "Part",
    "cache_folder",
    "check_bucket",
    "delete",
    "download",
    "exists",
    "fetch",
    "files_below",
    "fingerprint",
    "fingerprints_below",
    "for_all",
    "is_folder",
    "is_pattern",
    "is_remote",
    "location_of",
    "matching",
    "published",
    "read_text",
    "size_of",
    "split_pattern",
    "working_path",
    "write_text",
]
