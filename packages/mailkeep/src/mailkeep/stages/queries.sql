-- name: take_stage
-- Become the one process that works at this stage; false when another one is.
SELECT pg_try_advisory_lock(hashtextextended('mailkeep stage ' || %(name)s, 0));

-- name: leave_stage
-- Let another process work at this stage.
SELECT pg_advisory_unlock(hashtextextended('mailkeep stage ' || %(name)s, 0));
