"""What surrounds a released model: who answers for it, the page to sign, and the entry of a public registry."""

from dperm.release.deployment import Deployment, template
from dperm.release.page import page
from dperm.release.registry import registry_entry
from dperm.release.release import Release, read_release
from dperm.release.text import text

__all__ = ["Deployment", "Release", "page", "read_release", "registry_entry", "template", "text"]
