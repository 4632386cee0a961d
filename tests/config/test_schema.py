"""Configs are written out completely, and read back as themselves."""

import tomllib

from fedloom.config.resolve import method_from_config, resolve
from fedloom.config.schema import as_plain, to_toml


def test_a_config_written_out_reads_back_as_itself():
    config = resolve({"method": {"name": "FedProx", "mu": 0.3}, "task": {"clients": 7}})
    values = as_plain(config, method_from_config(config))
    again = resolve(tomllib.loads(to_toml(values).decode()))
    assert as_plain(again, method_from_config(again)) == values
    assert values["method"] == {"name": "fedprox", "mu": 0.3, "adaptive": False}
    assert values["task"]["model"] == "mlp"
    assert values["task"]["partition"]["name"] == "dirichlet"
    assert values["local"]["batch_size"] == 32
