"""Which files a renewal changes, and where a server keeps those of its sites."""

from __future__ import annotations

from fedloom.deploy.provision.certificates import AUTHORITY, SITE
from fedloom.deploy.provision.signature import SIGNATURE

RENEWED = "renewed"
"""The folder of renewed files for each site, in the server's folder: a running site gets them from there."""
SITE_FILES = (SITE, AUTHORITY, SIGNATURE)
"""The files of a site that a renewal changes; none is secret."""
