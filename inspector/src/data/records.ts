/** The records of the API that the page uses; API.md describes them. */

import type { Json, Obj } from './json.ts';

export interface Caller {
  user: string;
  admin: boolean;
  bridge: boolean;
  tokenNeeded: boolean;
  readOthers: boolean;
  extensions: string[];
}

export interface Extension {
  id: string;
  status: string;
  title?: string | null;
  characters?: number;
  instances?: number;
  keys?: number;
  bytes?: number;
  revision?: number;
  path?: string;
  registeredAt?: string;
  backupError?: string;
}

export interface Character {
  id: string;
  name: string | null;
  createdAt: string;
  updatedAt: string;
}

export interface Instance {
  id: string;
  characterId: string;
  name: string | null;
  chatId: string | null;
  createdAt: string;
  updatedAt: string;
}

export interface Chat {
  chatId: string;
  parent: string | null;
  archived: boolean;
  createdAt: string;
  updatedAt: string;
  revision: number;
}

export interface Anchor {
  messageId: string;
  swipe: string;
}

export interface HistoryItem {
  revision: number;
  at: string;
  actor: string;
  instanceId: string | null;
  key: string | null;
  op: string;
  before?: Json;
  after?: Json;
  value?: Json;
  anchor: Anchor | null;
  live: boolean;
  superseded?: boolean;
  space?: string;
  chatId?: string | null;
  characterId?: string | null;
}

export interface History {
  items: HistoryItem[];
  next: string | null;
}

export interface Difference {
  key: string;
  before?: Json;
  after?: Json;
  instanceId?: string | null;
  space?: string;
}

export interface Restored {
  revision: number;
  changed: number;
  warnings: string[];
  changes?: Difference[];
}

export interface FullInstance {
  instance: Instance;
  data: Obj;
}

export interface ChatState {
  chatId: string;
  revision: number;
  parent: string | null;
  data: Obj;
  instances: FullInstance[];
  series: Record<string, { currentVersion: number | null; count: number }>;
  processed: Record<string, number>;
  checkpoints: { name: string; status: string; revision: number | null; messageId: string | null; createdAt: string }[];
  operations: { pending: number; inProgress: number; retrying: number; paused: boolean };
  warnings: string[];
}

export interface Operation {
  id: string;
  type: string;
  status: string;
  stage: string | null;
  data: Json;
  priority: number;
  leaseUntil: string | null;
  attempts: number;
  maxAttempts: number;
  dependsOn: string[];
  anchor: Anchor | null;
  createdAt: string;
  updatedAt: string;
}

export interface Relative {
  chatId: string;
  messageId: string | null;
  checkpoint: string | null;
  createdAt: string;
}

export interface Lineage {
  chatId: string;
  ancestors: Relative[];
  branches: Relative[];
}

export interface FeedChange {
  instanceId: string | null;
  key: string | null;
  op: string;
  after?: Json;
  value?: Json;
  live: boolean;
  superseded?: boolean;
  chatId: string | null;
  space?: string;
  characterId?: string | null;
}

export interface FeedEvent {
  extensionId?: string;
  revision: number;
  at: string;
  actor: string;
  chatId: string | null;
  anchor: Anchor | null;
  changes: FeedChange[];
}

export interface Job {
  id: string;
  kind: string;
  status: string;
  done: number;
  total: number;
  startedAt: string;
  endedAt: string | null;
  result: unknown;
  error: { error: string; hint: string | null } | null;
}

export interface Backup {
  name: string;
  kind: string;
  createdAt: string;
  engine: string;
  version: string;
  bytes: number;
  extensions: { id: string; user: string; revision: number; bytes: number }[];
  failed: { id: string; error: string }[];
}
