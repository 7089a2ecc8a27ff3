"""Files and folders that appear complete or not at all, and the checkpoint of a run."""

import contextlib
import fcntl
import json
import os
import shutil

import torch

NAME = "checkpoint.pt"
VERSION = 1


class CheckpointError(Exception):
    """A checkpoint or output folder that cannot be used."""


def _sync_folder(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def new_file(path):
    """Opens a temporary file beside `path` for bytes; at the end it is synced and renamed."""
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{name}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise
    _sync_folder(folder)


def write_json(path, value):
    """Writes a value as JSON."""
    with new_file(path) as file:
        file.write((json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


@contextlib.contextmanager
def new_folder(path):
    """Gives a temporary folder beside `path`; at the end its files are synced and it takes the place of `path`."""
    parent, name = os.path.split(os.path.abspath(path))
    temporary, former = os.path.join(parent, f".{name}.tmp"), os.path.join(parent, f".{name}.old")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(former, ignore_errors=True)
    os.makedirs(temporary)
    try:
        yield temporary
        for entry in os.scandir(temporary):
            with open(entry.path, "rb") as file:
                os.fsync(file.fileno())
        _sync_folder(temporary)
        if os.path.exists(path):
            os.rename(path, former)
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(former, ignore_errors=True)
    _sync_folder(parent)


@contextlib.contextmanager
def lock(folder):
    """Holds the output folder for this run alone."""
    with open(os.path.join(folder, ".lock"), "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CheckpointError(f"{folder}: another run writes to this folder") from error
        yield


def save(folder, state):
    """Writes the checkpoint of a run."""
    with new_file(os.path.join(folder, NAME)) as file:
        torch.save({"version": VERSION, **state}, file)


def load(folder):
    """Reads the checkpoint of a run; `None` if there is none."""
    path = os.path.join(folder, NAME)
    if not os.path.exists(path):
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path}: not readable ({reason}); --restart begins anew") from error
    if not isinstance(state, dict) or state.get("version") != VERSION:
        raise CheckpointError(f"{path}: written by another version; --restart begins anew")
    return state
