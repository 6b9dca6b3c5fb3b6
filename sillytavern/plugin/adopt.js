'use strict';
/**
 * Adopts the files of the original plugin: `<SillyTavern>/db/*.db`.
 *
 * They are copied into the data directory before the server starts; the originals are not changed.
 * Registering an extension makes the server adopt its file; the server keeps a backup. Each file is
 * adopted once: a note in the data directory lists it, so that deleted data does not come back.
 */

const fs = require('node:fs');
const path = require('node:path');

const NOTE = '.adopted.json';
const NAME = /^([A-Za-z0-9_-]{1,128})\.db$/;
const MAGIC = Buffer.from('SQLite format 3\0');
// Files that SQLite writes beside a database; they belong to one that was not closed.
const COMPANIONS = ['-wal', '-journal'];
const TRIES = 3;

/** @typedef {Record<string, {copied: boolean, registered: boolean, refused?: string}>} Note */

class Adoption {
    /**
     * @param {string} from The folder of SillyTavern.
     * @param {string} dataDir
     * @param {import('./log').Log} log
     */
    constructor(from, dataDir, log) {
        this.from = path.join(from, 'db');
        this.dataDir = dataDir;
        this.log = log;
        /** @type {Note} */
        this.note = {};
    }

    /** Copy the files that are not adopted yet. A file that cannot be copied is logged and skipped. */
    async copy() {
        const names = await this.#find();
        this.note = await this.#read();
        for (const name of names) {
            const id = /** @type {RegExpExecArray} */ (NAME.exec(name))[1];
            if (Object.hasOwn(this.note, id)) {
                continue;
            }
            try {
                const copied = await this.#copyOne(name);
                this.note[id] = { copied, registered: !copied };
                await this.#write();
                if (copied) {
                    this.log.info(`took over ${name} of the original plugin; the original file stays where it is`);
                }
            } catch (error) {
                this.log.warn(`could not take over ${name} of the original plugin:`, /** @type {Error} */ (error).message);
            }
        }
    }

    /**
     * Register the copied files; failures are tried again at the next start.
     * @param {(id: string) => Promise<{status: number, text: string}>} register
     */
    async register(register) {
        for (const [id, entry] of Object.entries(this.note)) {
            if (entry.registered || entry.refused) {
                continue;
            }
            // The file was adopted by another user who registered it first.
            if (!fs.existsSync(path.join(this.dataDir, `${id}.db`))) {
                entry.registered = true;
                await this.#write();
                continue;
            }
            const { status, text } = await register(id);
            if (status < 300) {
                entry.registered = true;
            } else {
                this.log.warn(`the server did not take ${id}.db of the original plugin: ${status} ${text}`);
                if (status < 500) {
                    entry.refused = String(status);
                }
            }
            await this.#write();
        }
    }

    async #find() {
        try {
            const entries = await fs.promises.readdir(this.from, { withFileTypes: true });
            const files = entries.filter((each) => each.isFile() && each.name.endsWith('.db'));
            for (const each of files.filter(({ name }) => !NAME.test(name))) {
                this.log.warn(`left ${each.name} of the original plugin alone: an extension cannot have that name`);
            }
            return files.map(({ name }) => name).filter((name) => NAME.test(name)).sort();
        } catch {
            return [];
        }
    }

    /** @returns {Promise<Note>} */
    async #read() {
        try {
            return JSON.parse(await fs.promises.readFile(path.join(this.dataDir, NOTE), 'utf8'));
        } catch (error) {
            if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') {
                return {};
            }
            throw error;
        }
    }

    async #write() {
        const file = path.join(this.dataDir, NOTE);
        const draft = `${file}.${process.pid}`;
        await fs.promises.writeFile(draft, JSON.stringify(this.note, null, 4), { mode: 0o600 });
        await sync(draft);
        await fs.promises.rename(draft, file);
        await sync(this.dataDir);
    }

    /**
     * @param {string} name
     * @returns {Promise<boolean>} False if a file with that name exists, in upper or lower case.
     */
    async #copyOne(name) {
        const made = await fs.promises.mkdir(this.dataDir, { recursive: true, mode: 0o700 });
        for (let folder = this.dataDir; made && folder.length >= made.length; folder = path.dirname(folder)) {
            await sync(path.dirname(folder));
        }
        const there = (await fs.promises.readdir(this.dataDir)).map((each) => each.toLowerCase());
        if (there.includes(name.toLowerCase())) {
            return false;
        }
        const source = path.join(this.from, name);
        const target = path.join(this.dataDir, name);
        const draft = path.join(this.dataDir, `.${name}.${process.pid}`);
        try {
            const companions = await copyWhole(source, draft);
            for (const each of ['', ...companions]) {
                await sync(draft + each);
            }
            for (const each of companions) {
                await fs.promises.rename(draft + each, target + each);
            }
            await sync(this.dataDir);
            // The last step, and only if the name is still free: this makes the copy visible.
            await fs.promises.link(draft, target);
            await sync(this.dataDir);
            return true;
        } finally {
            for (const each of ['', ...COMPANIONS]) {
                await fs.promises.rm(draft + each, { force: true });
            }
        }
    }
}

/**
 * Make a file, or the names in a folder, survive a power cut. Windows cannot sync a folder.
 * @param {string} name
 */
async function sync(name) {
    const isFolder = (await fs.promises.stat(name)).isDirectory();
    if (isFolder && process.platform === 'win32') {
        return;
    }
    const handle = await fs.promises.open(name, isFolder ? 'r' : 'r+');
    try {
        await handle.sync();
    } finally {
        await handle.close();
    }
}

/**
 * Copy a database with its companions as of one moment. Copy again if one was written to in between.
 * @param {string} source
 * @param {string} draft
 */
async function copyWhole(source, draft) {
    for (let attempt = 0; attempt < TRIES; attempt += 1) {
        const before = await stamps(source);
        const present = ['', ...COMPANIONS].filter((_, index) => before[index] !== null);
        for (const each of present) {
            await fs.promises.copyFile(source + each, draft + each);
            await fs.promises.chmod(draft + each, 0o600);
        }
        if (JSON.stringify(await stamps(source)) === JSON.stringify(before)) {
            await check(draft);
            return present.filter((each) => each !== '');
        }
    }
    throw new Error('it is being written to; it will be tried again at the next start');
}

/** @param {string} source */
function stamps(source) {
    return Promise.all(['', ...COMPANIONS].map(async (each) => {
        try {
            const { size, mtimeMs } = await fs.promises.stat(source + each);
            return size === 0 && each ? null : [size, mtimeMs];
        } catch {
            return null;
        }
    }));
}

/** @param {string} file */
async function check(file) {
    const handle = await fs.promises.open(file);
    try {
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0);
        if (bytesRead < MAGIC.length || !buffer.equals(MAGIC)) {
            throw new Error('it is not a SQLite database');
        }
        await handle.sync();
    } finally {
        await handle.close();
    }
}

module.exports = { Adoption };
