"""`tiny_model.py FOLDER`: a tiny Llama with random weights and a byte-level tokenizer.

Needs no model hub. Runs in the engine's own virtual environment, which has torch and transformers.
2 layers x 2 KV heads x (32 + 32) x 2 bytes = 512 bytes of KV a token.
"""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CORPUS = ["the quick brown fox jumps over the lazy dog " * 20, "user assistant system hello world"]
CHAT = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE of 512 entries, trained on two sentences."""
    bpe = Tokenizer(models.BPE(unk_token=None))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train_from_iterator(CORPUS, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.chat_template = CHAT
    return fast


def config(vocabulary: int) -> LlamaConfig:
    """The geometry that the test computes with."""
    return LlamaConfig(
        vocab_size=max(512, vocabulary),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        tie_word_embeddings=True,
    )


def main(folder: str) -> None:
    """Write config.json, weights and tokenizer into the folder."""
    torch.manual_seed(0)
    words = tokenizer()
    words.save_pretrained(folder)
    LlamaForCausalLM(config(len(words))).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
