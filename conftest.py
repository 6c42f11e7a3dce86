"""Nothing that a test draws depends on chance, on the time, or on the machine."""

import pytest
from hypothesis import HealthCheck, settings

import case_marks
import noise_stream
from kernel_store import KernelStore
from noise_stream import STREAM

settings.register_profile(
    "no chance", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no chance")
noise_stream.install()


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # once, before the workers start
        config.kernels = KernelStore()
        config.had_no_kernels = config.kernels.restore()


def pytest_unconfigure(config):
    if getattr(config, "had_no_kernels", False):
        config.kernels.save()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    case_marks.thin(items)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not hasattr(pyfuncitem, "cases"):
        return None
    case_marks.run_cases(pyfuncitem, lambda case: STREAM.of(f"{_name(pyfuncitem)}[{case}]"))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    with STREAM.of(collector.nodeid):  # of models that a module of tests makes when it is imported
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    marked = item.get_closest_marker("system_noise")
    with STREAM.of_the_system() if marked else STREAM.of(_name(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    if fixturedef.scope == "function":
        return (yield)
    marked = request.node.get_closest_marker("system_noise")
    name = f"{fixturedef.baseid}::{fixturedef.argname}[{request.param_index}]"
    with STREAM.of_the_system() if marked else STREAM.of(name):
        return (yield)


def _name(item):
    return f"{item.location[0]}::{item.location[2]}"
