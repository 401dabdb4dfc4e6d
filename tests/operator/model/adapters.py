"""Adapters for tests: files made byte by byte, and a small base model."""

import json
import struct
import zipfile
from pathlib import Path

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
PHI3 = {**LLAMA, "model_type": "phi3", "architectures": ["Phi3ForCausalLM"]}
GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "vocab_size": 96,
}
VISION = {
    "model_type": "qwen2_5_vl",
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "text_config": {**LLAMA, "model_type": "qwen2_5_vl_text"},
}
FEATURES = {
    "q_proj": (32, 32), "k_proj": (32, 16), "v_proj": (32, 16), "o_proj": (32, 32),
    "gate_proj": (32, 64), "up_proj": (32, 64), "down_proj": (64, 32),
    "qkv": (32, 64), "gate_up": (32, 128), "c_attn": (32, 96),
}  # fmt: skip
RANK = 4


def ramp(count, start=1):
    """Different numbers, so that a row out of place is seen."""
    return [float(start + at) for at in range(count)]


def tensor(shape, start=1, values=None):
    count = 1
    for one in shape:
        count *= one
    return shape, ramp(count, start) if values is None else values


def pair(down, up, module, rank=RANK, start=1):
    """lora_A and lora_B of a module, under the names given."""
    inputs, outputs = FEATURES[module]
    return {down: tensor([rank, inputs], start), up: tensor([outputs, rank], start + 1000)}


def safetensors(path: Path, tensors, form="<f", name="F32"):
    """A file by the format's description: length, JSON header, bytes."""
    header, data = {}, b""
    for key, (shape, values) in tensors.items():
        packed = b"".join(struct.pack(form, one) for one in values)
        header[key] = {"dtype": name, "shape": shape}
        header[key]["data_offsets"] = [len(data), len(data) + len(packed)]
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def read_back(path: Path):
    """Shapes and values of a float32 file, read without the code under test."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    told = {}
    for key, one in header.items():
        if key != "__metadata__":
            start, end = (8 + length + at for at in one["data_offsets"])
            values = list(struct.unpack(f"<{(end - start) // 4}f", data[start:end]))
            told[key] = (one["shape"], values)
    return told


def adapter(folder: Path, tensors, config=None, **more):
    """A folder with an adapter; `config` False leaves adapter_config.json out."""
    folder.mkdir(exist_ok=True)
    safetensors(folder / "adapter_model.safetensors", tensors)
    if config is not False:
        targets = sorted({key.split(".lora_")[0].split(".")[-1] for key in tensors})
        told = {"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "target_modules": targets}
        (folder / "adapter_config.json").write_text(json.dumps({**told, **(config or {}), **more}))
    return folder


def config_file(folder: Path, config):
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def numbers(values) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def imported(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def storage(key: str, count: int, kind="FloatStorage") -> bytes:
    return (
        b"("
        + text("storage")
        + imported("torch", kind)
        + text(key)
        + text("cpu")
        + number(count)
        + b"tQ"
    )


def rebuilt(key: str, shape, stride, count: int, offset=0) -> bytes:
    """The opcodes with which torch.save describes a tensor."""
    hooks = imported("collections", "OrderedDict") + b")R"
    return (
        imported("torch._utils", "_rebuild_tensor_v2")
        + b"("
        + storage(key, count)
        + number(offset)
        + numbers(shape)
        + numbers(stride)
        + b"\x89"
        + hooks
        + b"tR"
    )


def dictionary(entries) -> bytes:
    """A pickle of a dictionary whose values are given as opcodes."""
    body = b"".join(text(key) + value for key, value in entries.items())
    return b"\x80\x02}(" + body + b"u."


def torch_file(path: Path, pickled: bytes, storages=None, compression=zipfile.ZIP_STORED):
    """torch.save's zip around a pickle."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", "little")
        for key, values in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", struct.pack(f"<{len(values)}f", *values))
        archive.writestr("archive/version", "3\n")
    return path
