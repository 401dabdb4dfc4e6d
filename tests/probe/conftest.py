"""A tiny model with random weights, as a checkpoint on disk."""

import pytest

from cacheaware.cli import main

REASON = "torch and transformers aren't installed here: `make test-probe` runs these"


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch", reason=REASON)


@pytest.fixture(scope="session")
def tiny(torch, tmp_path_factory):
    """Makes a checkpoint; `change` may damage the model before it is saved."""
    transformers = pytest.importorskip("transformers", reason=REASON)

    def make(change=None, **more):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=128, max_position_embeddings=32768, **more,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "q_proj" in name or "k_proj" in name:
                    weight.mul_(12.0)
            if change is not None:
                change(model)
        folder = tmp_path_factory.mktemp("model")
        model.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def healthy(tiny):
    return tiny()


def ran(capsys, *args):
    with pytest.raises(SystemExit) as end:
        main(list(map(str, args)))
    told = capsys.readouterr()
    return end.value.code, told.out, told.err
