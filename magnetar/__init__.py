"""Magnetar: Pulsar-compatible messaging. The root of an installed wheel, and the command ``magnetar``.

A wheel has the packages ``engine``, ``bookie``, ``gateway``, ``admin_ui`` and ``spark_jobs``, and the built console, in
``magnetar/lib``, so that site-packages has one name of ours. A checkout has them as its top-level folders.
"""

import sys
from pathlib import Path

__version__ = "0.1.0"

INSTALLED = Path(__file__).resolve().parent / "lib"
ROOT = INSTALLED if INSTALLED.is_dir() else INSTALLED.parents[1]
"""The folder of the packages: ``magnetar/lib`` of a wheel, else the checkout."""

if str(ROOT) not in sys.path:
    # In front: a package of the same name elsewhere in site-packages is not ours.
    sys.path.insert(0, str(ROOT))
