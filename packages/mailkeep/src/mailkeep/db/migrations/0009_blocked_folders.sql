-- The message in front of which a folder stands because the server does not give it, and how often it was asked for.
ALTER TABLE synchronization_checkpoints ADD COLUMN blocked_uid bigint;
ALTER TABLE synchronization_checkpoints ADD COLUMN blocked_attempts integer;
