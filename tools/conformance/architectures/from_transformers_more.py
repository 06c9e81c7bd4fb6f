"""More networks of transformers, tiny, from configurations: recent decoders of text, encoder-decoders, speech, vision."""

from configured import networks

NETWORKS = networks("transformers_more")
