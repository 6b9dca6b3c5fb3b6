'use strict';
const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { JSON_TYPE, PYTHON, makeTavern, openTavern, waitFor } = require('./rig');

// A file of the original plugin; `wal`: it was not closed, and all data is still in the log.
const MAKE = `
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
if sys.argv[2] == "wal":
    connection.execute("PRAGMA journal_mode = WAL")
connection.executescript("""
CREATE TABLE characters (id TEXT PRIMARY KEY, name TEXT);
CREATE TABLE instances (id TEXT PRIMARY KEY, character_id TEXT NOT NULL, name TEXT);
CREATE TABLE data (instance_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT, PRIMARY KEY (instance_id, key));
INSERT INTO characters VALUES ('Seraphina.png', 'Seraphina');
INSERT INTO instances VALUES ('run', 'Seraphina.png', NULL);
INSERT INTO data VALUES ('run', 'hp', '7');
""")
if sys.argv[2] == "wal":
    os._exit(0)
connection.close()
`;

function makeOriginal(tavern, name, how = 'closed') {
    const file = path.join(tavern.root, 'db', name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    execFileSync(PYTHON, ['-c', MAKE, file, how]);
    return file;
}

const values = (tavern, id) => tavern.ask('GET', '/instances/run/data', { headers: { 'x-extension-id': id } });
const adopted = (tavern, id) => waitFor(async () => (await values(tavern, id)).status === 200, () => tavern.log.text);

test('the files of the original plugin are adopted, and are not changed', async (t) => {
    const tavern = makeTavern(t);
    const file = makeOriginal(tavern, 'outfits.db');
    const before = fs.readFileSync(file);
    const opened = await openTavern(t, tavern);

    await adopted(opened, 'outfits');

    assert.deepEqual((await values(opened, 'outfits')).json, { hp: 7 });
    assert.deepEqual(fs.readFileSync(file), before);
    assert.deepEqual(fs.readdirSync(path.dirname(file)), ['outfits.db']);
    assert.equal(fs.statSync(path.join(opened.dataDir, 'outfits.db')).mode & 0o777, 0o600);
    assert.match(opened.log.text, /took over outfits\.db/);
    // The server keeps a backup of the adopted file.
    assert.equal(fs.readdirSync(opened.dataDir, { recursive: true }).filter((each) => /outfits.*(original|backup|before)/.test(each)).length, 1);
});

test('data that is still in the write-ahead log is adopted, too', async (t) => {
    const tavern = makeTavern(t);
    const file = makeOriginal(tavern, 'outfits.db', 'wal');
    assert.ok(fs.statSync(`${file}-wal`).size > 0);
    const opened = await openTavern(t, tavern);

    await adopted(opened, 'outfits');

    assert.deepEqual((await values(opened, 'outfits')).json, { hp: 7 });
});

test('each file is adopted once, also if it is deleted later', async (t) => {
    const tavern = makeTavern(t);
    makeOriginal(tavern, 'outfits.db');
    const first = await openTavern(t, tavern);
    await adopted(first, 'outfits');
    await first.ask('DELETE', '/register', { headers: JSON_TYPE, body: JSON.stringify({ extensionId: 'outfits', purge: true }) });
    await first.bridge.stop();

    makeOriginal(tavern, 'later.db');
    const second = await openTavern(t, tavern);
    await adopted(second, 'later');

    assert.equal((await values(second, 'outfits')).json.code, 'extension_not_registered');
    assert.equal(fs.existsSync(path.join(second.dataDir, 'outfits.db')), false);
});

test('an existing file is not replaced, in upper or lower case', async (t) => {
    const tavern = makeTavern(t);
    makeOriginal(tavern, 'Outfits.db');
    fs.mkdirSync(tavern.dataDir, { recursive: true });
    fs.writeFileSync(path.join(tavern.dataDir, 'outfits.db'), 'mine');

    await openTavern(t, tavern);

    assert.deepEqual(fs.readdirSync(tavern.dataDir).filter((each) => /outfits/i.test(each)), ['outfits.db']);
    assert.equal(fs.readFileSync(path.join(tavern.dataDir, 'outfits.db'), 'utf8'), 'mine');
});

test('other files are logged and skipped, and the rest is adopted', async (t) => {
    const tavern = makeTavern(t);
    makeOriginal(tavern, 'outfits.db');
    const folder = path.join(tavern.root, 'db');
    fs.writeFileSync(path.join(folder, 'empty.db'), '');
    fs.writeFileSync(path.join(folder, 'text.db'), 'not a database at all');
    fs.writeFileSync(path.join(folder, 'my notes.db'), 'x');
    fs.mkdirSync(path.join(folder, 'folder.db'));
    fs.symlinkSync('/etc/hostname', path.join(folder, 'link.db'));
    const opened = await openTavern(t, tavern);

    await adopted(opened, 'outfits');

    for (const name of ['empty.db', 'text.db', 'my notes.db']) {
        assert.match(opened.log.text, new RegExp(`${name} of the original plugin`));
    }
    const there = fs.readdirSync(opened.dataDir).filter((each) => /empty|text|notes|folder|link/.test(each));
    assert.deepEqual(there, []);
});

test('an interrupted copy is made again', async (t) => {
    const tavern = makeTavern(t);
    makeOriginal(tavern, 'outfits.db');
    fs.mkdirSync(tavern.dataDir, { recursive: true });
    fs.writeFileSync(path.join(tavern.dataDir, '.outfits.db.12345'), 'half a fi');
    const opened = await openTavern(t, tavern);

    await adopted(opened, 'outfits');

    assert.deepEqual((await values(opened, 'outfits')).json, { hp: 7 });
});

test('a note that cannot be read stops nothing', async (t) => {
    const tavern = makeTavern(t);
    makeOriginal(tavern, 'outfits.db');
    fs.mkdirSync(tavern.dataDir, { recursive: true });
    fs.writeFileSync(path.join(tavern.dataDir, '.adopted.json'), '{');

    const opened = await openTavern(t, tavern);

    assert.equal((await opened.ask('GET', '/health')).status, 200);
    assert.match(opened.log.text, /could not prepare the data directory/);
});
