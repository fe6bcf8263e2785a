-- A batch that arrives writes octets and documents before its rows (SET CONSTRAINTS), so that two batches of one account
-- wait for each other only while their conversations are worked out. Everybody else is checked at once, as before.
ALTER TABLE email_message_contents
    ALTER CONSTRAINT fk_email_message_contents_stored_emails DEFERRABLE INITIALLY IMMEDIATE;
ALTER TABLE email_search_documents
    ALTER CONSTRAINT fk_email_search_documents_stored_emails DEFERRABLE INITIALLY IMMEDIATE;
