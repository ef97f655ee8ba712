-- Partitions that retention has detached. They are dropped a day later.
CREATE TABLE detached_partitions (
  table_name  text    NOT NULL, -- visits, pageviews or events
  month       integer NOT NULL,
  detached_at bigint  NOT NULL,
  PRIMARY KEY (table_name, month)
);
