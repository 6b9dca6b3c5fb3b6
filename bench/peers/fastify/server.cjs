// The server a good Node developer would write for the benchmark's requests: Fastify and
// better-sqlite3, prepared statements, WAL, one transaction per request. It keeps no history.
//
//   node server.cjs <file> <FULL|NORMAL>

const Database = require("better-sqlite3");
const Fastify = require("fastify");

const [file, synchronous] = process.argv.slice(2);
const db = new Database(file);
db.pragma("journal_mode = WAL");
db.pragma(`synchronous = ${synchronous}`);
db.exec(`
  CREATE TABLE IF NOT EXISTS characters (id TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS instances (
    id TEXT PRIMARY KEY,
    character_id TEXT NOT NULL REFERENCES characters (id)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS instances_of_character ON instances (character_id);
  CREATE TABLE IF NOT EXISTS data (
    instance_id TEXT NOT NULL REFERENCES instances (id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (instance_id, key)
  ) WITHOUT ROWID;
`);

const selectValue = db.prepare("SELECT value FROM data WHERE instance_id = ? AND key = ?").pluck();
const selectValues = db.prepare("SELECT key, value FROM data WHERE instance_id = ?").raw();
const selectCharacter = db.prepare("SELECT id, name FROM characters WHERE id = ?");
const selectInstances = db.prepare("SELECT id FROM instances WHERE character_id = ?").pluck();
const upsert = db.prepare(`
  INSERT INTO data (instance_id, key, value, updated_at) VALUES (?, ?, ?, ?)
  ON CONFLICT (instance_id, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
`);

const set = (instance, key, value) => upsert.run(instance, key, JSON.stringify(value), Date.now());

const merge = db.transaction((instance, values) => {
  for (const key of Object.keys(values)) set(instance, key, values[key]);
});

const valuesOf = (instance) => {
  const values = {};
  for (const [key, value] of selectValues.all(instance)) values[key] = JSON.parse(value);
  return values;
};

const app = Fastify();

app.get("/durability", () => ({
  journalMode: db.pragma("journal_mode", { simple: true }),
  synchronous: db.pragma("synchronous", { simple: true }),
}));

app.get("/instances/:instance/data/:key", (request) => {
  const { instance, key } = request.params;
  const value = selectValue.get(instance, key);
  return value === undefined ? {} : { [key]: JSON.parse(value) };
});

app.get("/instances/:instance/data", (request) => valuesOf(request.params.instance));

app.get("/characters/:character", (request, reply) => {
  const character = selectCharacter.get(request.params.character);
  if (!character) return reply.code(404).send({ error: "There is no such character." });
  const instances = selectInstances
    .all(character.id)
    .map((id) => ({ instance: { id, characterId: character.id }, data: valuesOf(id) }));
  return { character, instances };
});

const setBody = {
  type: "object",
  required: ["key", "value"],
  properties: { key: { type: "string" }, value: {} },
};

app.post("/instances/:instance/data", { schema: { body: setBody } }, (request) => {
  const { key, value } = request.body;
  set(request.params.instance, key, value);
  return { success: true, key, value };
});

app.put("/instances/:instance/data/merge", { schema: { body: { type: "object" } } }, (request) => {
  merge(request.params.instance, request.body);
  return { success: true };
});

app.listen({ host: "127.0.0.1", port: 0 }).then((url) => console.log(`fastify listening on ${url}`));
