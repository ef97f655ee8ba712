-- oldest program: unchanged
-- Alerts, where they are sent, and the messages about them.

-- A place that alerts of an account, or of one of its sites, are sent to.
CREATE TABLE alert_channels (
  id                 @identity,
  account_id         bigint  NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  site_id            bigint  REFERENCES sites (id) ON DELETE CASCADE, -- NULL: the account's
  user_id            bigint  REFERENCES users (id) ON DELETE CASCADE, -- whose own channel it is; NULL: the site's or the account's
  kind               text    NOT NULL, -- email, slack, discord, teams or webhook
  name               text    NOT NULL,
  language           text    NOT NULL, -- of its messages; not used for an own channel, which has the user's
  address            @bytes  NOT NULL, -- an e-mail address or a URL, encrypted with the application key; empty for an own channel
  hint               text    NOT NULL, -- what is shown of a URL; empty for an e-mail address
  secret             @bytes,           -- signs the calls of the kind webhook, encrypted; NULL: nothing is signed
  events             text    NOT NULL, -- a JSON array
  weekly             boolean NOT NULL,
  monthly            boolean NOT NULL,
  spike_above        bigint, -- visitors at once; NULL: no message about them
  drop_below         bigint, -- visitors of a day; likewise
  weekly_due_at      bigint  NOT NULL,
  monthly_due_at     bigint  NOT NULL,
  spike_due_at       bigint  NOT NULL,
  drop_due_at        bigint  NOT NULL,
  quiet_from         integer NOT NULL, -- minute of the day; the same as quiet_to: no quiet hours
  quiet_to           integer NOT NULL,
  quiet_zone         text    NOT NULL,
  confirm_hash       @bytes, -- SHA-256 of the mailed secret; NULL: confirmed, or another kind
  confirm_expires_at bigint  NOT NULL,
  confirmed_at       bigint  NOT NULL, -- 0: an e-mail address that gets nothing yet
  stopped_at         bigint  NOT NULL, -- 0: not stopped
  stop_reason        text    NOT NULL, -- gone or recipient
  operator_id        bigint  REFERENCES users (id) ON DELETE SET NULL, -- who made it get the installation's events
  created_by         bigint  REFERENCES users (id) ON DELETE SET NULL,
  created_at         bigint  NOT NULL
);
CREATE INDEX alert_channels_account ON alert_channels (account_id, id);
CREATE INDEX alert_channels_site ON alert_channels (site_id) WHERE site_id IS NOT NULL;              -- deletion of a site
CREATE UNIQUE INDEX alert_channels_own ON alert_channels (user_id, site_id) WHERE user_id IS NOT NULL; -- deletion of a user
CREATE INDEX alert_channels_creator ON alert_channels (created_by) WHERE created_by IS NOT NULL;        -- deletion of a user
CREATE INDEX alert_channels_operator ON alert_channels (operator_id) WHERE operator_id IS NOT NULL;  -- likewise
CREATE INDEX alert_channels_confirm ON alert_channels (confirm_hash) WHERE confirm_hash IS NOT NULL; -- the mailed secret
CREATE INDEX alert_channels_weekly ON alert_channels (weekly_due_at) WHERE weekly AND confirmed_at > 0 AND stopped_at = 0; -- the planner
CREATE INDEX alert_channels_monthly ON alert_channels (monthly_due_at) WHERE monthly AND confirmed_at > 0 AND stopped_at = 0;
CREATE INDEX alert_channels_spike ON alert_channels (spike_due_at)
  WHERE spike_above IS NOT NULL AND confirmed_at > 0 AND stopped_at = 0;
CREATE INDEX alert_channels_drop ON alert_channels (drop_due_at)
  WHERE drop_below IS NOT NULL AND confirmed_at > 0 AND stopped_at = 0;

-- Something that its account's members should know. It lasts from began_at to ended_at.
CREATE TABLE alerts (
  id         @identity,
  account_id bigint REFERENCES accounts (id) ON DELETE CASCADE, -- NULL: the installation's, for operators
  site_id    bigint REFERENCES sites (id) ON DELETE CASCADE,    -- NULL: of no site
  sitekey_id bigint REFERENCES sitekeys (id) ON DELETE CASCADE, -- NULL: of no sitekey
  event      text   NOT NULL,
  subject    text   NOT NULL, -- what else identifies it, such as the kind of a webhook; may be empty
  began_at   bigint NOT NULL,
  ended_at   bigint NOT NULL, -- 0: it lasts
  seen_at    bigint NOT NULL, -- when its rule last held
  details    text   NOT NULL  -- JSON object, the figures
);
CREATE UNIQUE INDEX alerts_open
  ON alerts (coalesce(account_id, 0), coalesce(site_id, 0), coalesce(sitekey_id, 0), event, subject) WHERE ended_at = 0;
CREATE INDEX alerts_account ON alerts (account_id, id);
CREATE INDEX alerts_site ON alerts (site_id, event, id) WHERE site_id IS NOT NULL;
CREATE INDEX alerts_sitekey ON alerts (sitekey_id, event, id) WHERE sitekey_id IS NOT NULL;
CREATE INDEX alerts_ended ON alerts (ended_at) WHERE ended_at > 0; -- the retention

-- A message to a channel, in the same form as a delivery.
CREATE TABLE alert_messages (
  id              @identity,
  channel_id      bigint  NOT NULL REFERENCES alert_channels (id) ON DELETE CASCADE,
  alert_id        bigint  REFERENCES alerts (id) ON DELETE SET NULL, -- NULL: a test or a planned message
  event           text    NOT NULL, -- of the alert; or test, or of a planned message
  phase           text    NOT NULL, -- begun, ended, both or once
  data            text    NOT NULL, -- JSON object, from which each attempt makes the same body
  state           text    NOT NULL, -- pending, delivered or failed
  attempts        integer NOT NULL, -- of the schedule
  tries           integer NOT NULL, -- all attempts
  claimed_until   bigint  NOT NULL,
  fallback        text    NOT NULL, -- the state before a pending manual attempt
  created_at      bigint  NOT NULL,
  next_attempt_at bigint  NOT NULL,
  mail_id         bigint -- the mail that carries it; NULL: none, or not yet
);
CREATE INDEX alert_messages_channel ON alert_messages (channel_id, id);
CREATE INDEX alert_messages_due ON alert_messages (next_attempt_at) WHERE state = 'pending'; -- the sweeper
CREATE INDEX alert_messages_lane ON alert_messages (channel_id, next_attempt_at, id) WHERE state = 'pending';
CREATE INDEX alert_messages_alert ON alert_messages (alert_id, channel_id) WHERE alert_id IS NOT NULL; -- the end of an alert
CREATE INDEX alert_messages_created ON alert_messages (created_at); -- the retention

-- One call of a channel's address, as delivery_attempts.
CREATE TABLE alert_attempts (
  message_id  bigint  NOT NULL REFERENCES alert_messages (id) ON DELETE CASCADE,
  n           integer NOT NULL, -- 1 is the first
  manual      boolean NOT NULL,
  at          bigint  NOT NULL,
  duration_ms bigint  NOT NULL,
  status      integer NOT NULL, -- of HTTP; 0: no answer
  error       text    NOT NULL, -- class of the failure; empty: delivered
  answer      text    NOT NULL, -- how the answer's body begins
  PRIMARY KEY (message_id, n)
) @without_rowid;
