"""Giving up the rights that opening an interface took, before the first packet of strangers is looked into."""

from __future__ import annotations

import ctypes
import os
import sys

from kvec.words.errors import SettingError

VERSION_3 = 0x20080522  # of the kernel's sets of capabilities: two words each of effective, permitted, inheritable


def drop_rights(user: str = "") -> str:
    """Go on as somebody who may do less, for good; says in a few words who that is.

    Under sudo that is whoever called it, so what is written from now on belongs to them. Root itself stays root unless
    a `user` is named: files and folders of root would be out of reach, and only its user can know who should own them.
    Other processes give up their capabilities (`setcap`), in the thread that calls.
    """
    if not hasattr(os, "geteuid"):
        return "with all rights"
    if os.geteuid() != 0:
        if user:
            raise SettingError(f"only root can go on as {user!r}; leave the user out")
        return "without capabilities" if _drop_capabilities() else "with its capabilities, which cannot be given up"
    if user:
        return _become(user)
    caller = os.environ.get("SUDO_UID", "")
    return _become(int(caller)) if caller.isdecimal() and caller != "0" else "as root"


def _become(user: str | int) -> str:
    import pwd

    try:
        found = pwd.getpwnam(user) if isinstance(user, str) else pwd.getpwuid(user)
    except KeyError:
        raise SettingError(f"there is no user {user!r} on this machine to go on as") from None
    if found.pw_uid != 0:
        os.initgroups(found.pw_name, found.pw_gid)
        os.setgid(found.pw_gid)
        os.setuid(found.pw_uid)
        os.environ.update(HOME=found.pw_dir, USER=found.pw_name, LOGNAME=found.pw_name)  # where caches are kept
    return f"as {found.pw_name}"


def _drop_capabilities() -> bool:
    if sys.platform != "linux":
        return True
    header = (ctypes.c_uint32 * 2)(VERSION_3, 0)
    return bool(ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0)
