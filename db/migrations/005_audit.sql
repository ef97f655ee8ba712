-- oldest program: unchanged

-- Who changed what in an account. No foreign key: the row of an account's site would lock the account, against the order of
-- locks. Deleting an account deletes its rows.
CREATE TABLE audit_log (
  account_id    bigint NOT NULL,
  id            bigint NOT NULL, -- grows with time, see model.FirstTimeID
  at            bigint NOT NULL,
  actor_kind    text   NOT NULL, -- USER, API_TOKEN, OPERATOR, COMMAND_LINE, UNAUTHENTICATED or SYSTEM
  actor_user_id bigint NOT NULL, -- 0: not a user
  actor_name    text   NOT NULL, -- the user's e-mail address at that time
  token_id      bigint NOT NULL, -- 0: no API token
  token_name    text   NOT NULL, -- at that time
  action        text   NOT NULL, -- the GraphQL mutation or the command
  object_kind   text   NOT NULL, -- a type of the GraphQL schema
  object_id     bigint NOT NULL,
  object_site   bigint NOT NULL, -- of a delivery, whose id is unique in its site only; otherwise 0
  object_name   text   NOT NULL, -- at that time
  before        text   NOT NULL, -- JSON object of values, without secrets; empty: none
  after         text   NOT NULL, -- likewise
  PRIMARY KEY (account_id, id)
);
CREATE INDEX audit_log_action ON audit_log (account_id, action, id);                 -- filter
CREATE INDEX audit_log_actor ON audit_log (account_id, actor_user_id, id);           -- filter
CREATE INDEX audit_log_object ON audit_log (account_id, object_kind, object_id, id); -- filter
CREATE INDEX audit_log_id ON audit_log (id);
