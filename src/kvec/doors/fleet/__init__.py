"""A fleet of workers on NATS JetStream that share the partitions of one stream (record 0030)."""
