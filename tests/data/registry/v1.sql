PRAGMA application_id = 1819242352;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
INSERT INTO "meta" VALUES('identity','0123456789abcdef0123456789abcdef');
CREATE TABLE sessions (
  ref TEXT, ref_key TEXT, server_pid INTEGER, server_start INTEGER, pane_pid INTEGER, pane_start TEXT, created_at TEXT, updated_at TEXT, closed_at TEXT, id TEXT PRIMARY KEY NOT NULL, machine TEXT, harness TEXT, status TEXT, runner TEXT, origin TEXT, socket TEXT, session_id TEXT, pane_id TEXT, name TEXT, harness_session_id TEXT, cwd TEXT, reason TEXT, transcript TEXT, node_id TEXT, generation INTEGER
) STRICT;
INSERT INTO "sessions" VALUES('github:octo/app#15','github:octo/app#15',700,1784000000,811,'boot:12345','2026-07-25T10:00:00.000000Z','2026-07-25T10:00:00.000000Z',NULL,'00000000-0000-4000-8000-000000000001','desk','claude','active','tmux','started','/run/loopctl/tmux.sock','$3','%7','loop-octo-app-15','0b8f','/srv/work','','','',1);
INSERT INTO "sessions" VALUES('items:demo/app#3','items:demo/app#3',NULL,NULL,NULL,NULL,'2026-07-24T10:00:00.000000Z','2026-07-25T10:00:00.000000Z','2026-07-25T10:00:00.000000Z','00000000-0000-4000-8000-000000000002','desk','codex','closed','tmux','started','/run/loopctl/tmux.sock','','','it''s ünï; -- x','','/srv/work','issue-closed','/srv/state/transcripts/demo-app-3-00000000.txt','',1);
CREATE UNIQUE INDEX one_open_session ON sessions (machine, ref_key) WHERE status != 'closed';
COMMIT;
