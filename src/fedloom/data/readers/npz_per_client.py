"""A folder with one NPZ file per client, as PFLlib and others divide data.

PFLlib's own files hold a pickled dictionary and are refused with the line of code that saves them again.
"""

from __future__ import annotations

from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.data.folder import read_arrays
from fedloom.data.readers.leaf import ClientArrays, combine_clients, list_parts


def read_npz_per_client(path: Path) -> ClientArrays:
    """One NPZ with plain arrays x and y per client, in the folder or in its ``train`` and ``test`` folders."""
    parts = []
    for part, files in list_parts(path, "*.npz"):
        for file in sorted(files, key=lambda f: (not f.stem.isdigit(), f.stem.zfill(12))):
            try:
                arrays = read_arrays(file)
            except FedloomError as error:
                if "pickled" not in str(error):
                    raise
                raise FedloomError(
                    f"{file} holds a pickled object, which Fedloom never loads: if you trust it, open it with numpy "
                    "(its 'data' is a dictionary) and re-save the arrays, numpy.savez(file, x=data['x'], y=data['y'])."
                ) from None
            if not {"x", "y"} <= set(arrays):
                raise FedloomError(f"{file} has the arrays {', '.join(arrays) or 'none'}: it needs x and y.")
            parts.append((file.stem, arrays["x"], arrays["y"], part))
    return combine_clients(path, parts)
