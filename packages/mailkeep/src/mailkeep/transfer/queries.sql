-- name: held_digests
-- The digests of everything a folder holds, living or not: an import brings none of it a second time.
SELECT c.sha256_hash
  FROM stored_emails e
  JOIN email_message_contents c ON c.stored_email_id = e.id
 WHERE e.mail_folder_id = %(folder_id)s;
