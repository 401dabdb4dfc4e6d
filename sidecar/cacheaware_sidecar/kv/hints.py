"""Fields that hint at another KV layout than the rules would compute: better unknown than wrong."""

import re
from collections.abc import Mapping
from typing import Any, Final

_LAYOUTS: Final = {
    "attention_chunk_size": "llama4",
    "attention_other_setting": "",
    "block_configs": "nemotron-nas deci",
    "cross_attention_layers": "mllama",
    "global_head_dim": "gemma4",
    "index_head_dim": "deepseek_v32 glm_moe_dsa",
    "kv_lora_rank": "minicpm3 axk1 deepseek_v2 deepseek_v3 deepseek_v32 deepseek_mtp glm_moe_dsa "
    "glm4_moe_lite kimi_k2 kimi_linear pangu_ultra_moe",
    "linear_attn_config": "kimi_linear",
    "num_global_key_value_heads": "gemma4",
    "num_key_value_heads_per_layer": "deci",
    "sparse_attention_config": "minimax_m3 minimax_m3_vl",
    "swa_head_dim": "mimo_v2_flash",
    "swa_num_key_value_heads": "mimo_v2_flash",
}
"""Fields that decide the layout, and the types whose rules read them."""

_HINTS: Final = re.compile(
    r"ssm|mamba|rwkv|recurr|lru_|retention|conv(_|1d|$)|compress|kv_lora|latent|mla|(^|_)lsh"
    r"|^index|indexer|sparse|(^|_)nsa|(^|_)dsa(_|$)|attention_other"
    r"|window|chunk|local_att|global_|swa_"
    r"|layer_type|block_type|block_config|pattern|layers$|linear_"
    r"|attn_type|attention_type|(full|global|local|attn|attention)_.*(interval|period|freq|every)"
    r"|kv_shar|shared?_kv|share_layers|(^|_)cla(_|$)|yoco|cross_att|encoder|memory|per_layer$"
    r"|kv_?heads?|head_kv|n_kv|kv_n|key_value|query_group|attention_groups|kv_channels|multi_query"
    r"|(qk|v|k|kv|key|value|attention|attn)_(\w+_)?(head_)?(dim|size)$|head_dim$|head_size$"
    r"|attn_config|patch_size|image_size|num_mel|type_vocab|state_size|d_state|d_conv"
)
_HARMLESS: Final = re.compile(
    r"^num_(hidden|transformer|nextn_predict|mtp)_|^n_layers?$|^num_layers$|^mtp_"
    r"|vision|image|audio|video|projector|^mm_|moe|expert|^mlp|mup_|dense|^decoder_sparse_step$"
    r"|^max_window_layers$|^chunk_size_feed_forward$|vocab_size_per_layer"
    r"|encoder_no_repeat|^tie_|logit|norm|dropout|pdrop|rope|rotary|bias|^_|^tf_|^is_"
)
_READ: Final = frozenset(
    [
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "n_kv_heads",
        "multi_query_group_num",
        "num_attention_groups",
        "head_dim",
        "hidden_size_per_head",
        "kv_channels",
        "attention_head_dim",
        "layer_types",
        "layers_block_type",
        "hybrid_override_pattern",
        "attn_layer_indices",
        "attn_layer_period",
        "attn_layer_offset",
        "full_attention_interval",
        "use_sliding_window",
        "num_kv_shared_layers",
    ]
)
"""Fields of the general rules: read for every type."""


def foreign_fields(model_type: str, values: Mapping[str, Any]) -> list[str]:
    """For a known type: fields that decide a layout which this type isn't known to have."""
    return [
        name
        for name, types in _LAYOUTS.items()
        if values.get(name) and model_type not in types.split()
    ]


def strange_fields(values: Mapping[str, Any]) -> list[str]:
    """For an unknown type: fields, set to something, whose name speaks of the KV layout.

    A window counts only while it is on, and not where `layer_types` says whose it is.
    """
    names = (name for name, value in values.items() if value and isinstance(name, str))
    return sorted(ascii(name)[1:-1] for name in names if _is_strange(name, values))


def _is_strange(name: str, values: Mapping[str, Any]) -> bool:
    if name in _READ or _HARMLESS.search(name):
        return False
    if name == "sliding_window":
        return values.get("use_sliding_window") is not False and not values.get("layer_types")
    return bool(_HINTS.search(name))
