"""Code that all worker processes share. Their fork server loads this module once."""

import gc

import trajmill.pipelines.run  # noqa: F401
from trajmill.connectors.registry import connectors

tuple(connectors().values())  # which loads them
gc.freeze()  # else the collector would write to each page that workers share
