/** The routes of the server, as its OpenAPI document describes them. */

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
}

export interface Example {
  summary?: string;
  value: unknown;
}

interface Content {
  examples?: Record<string, Example>;
}

interface Operation {
  tags?: string[];
  summary?: string;
  description?: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, Content> };
  responses: Record<string, { description: string; content?: Record<string, Content> }>;
}

export interface OpenApi {
  paths: Record<string, Record<string, Operation>>;
}

export interface Route {
  section: string;
  method: string;
  /** Below the prefix, without a slash in front. */
  path: string;
  summary: string;
  description: string;
  parameters: Parameter[];
  needsExtension: boolean;
  bodyType: string | null;
  bodies: Example[];
  answers: { status: string; description: string; examples: Example[] }[];
}

const PREFIX = '/api/plugins/valuetracker/';
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

export function routesOf(document: OpenApi): Route[] {
  const routes: Route[] = [];
  for (const [whole, operations] of Object.entries(document.paths)) {
    if (!whole.startsWith(PREFIX)) continue;
    for (const method of METHODS) {
      const each = operations[method];
      if (!each) continue;
      const parameters = each.parameters ?? [];
      const bodies = Object.entries(each.requestBody?.content ?? {});
      routes.push({
        section: each.tags?.[0] ?? '',
        method: method.toUpperCase(),
        path: whole.slice(PREFIX.length),
        summary: each.summary ?? '',
        description: each.description ?? '',
        parameters,
        needsExtension: parameters.some((one) => one.name === 'x-extension-id'),
        bodyType: bodies[0]?.[0] ?? null,
        bodies: bodies.flatMap(([, content]) => Object.values(content.examples ?? {})),
        answers: Object.entries(each.responses).map(([status, answer]) => ({
          status,
          description: answer.description,
          examples: Object.values(answer.content ?? {}).flatMap((content) => Object.values(content.examples ?? {})),
        })),
      });
    }
  }
  return routes;
}

export function matches(route: Route, words: string[]): boolean {
  const text =
    `${route.method} ${route.path} ${route.summary} ${route.description} ${route.section} ${route.parameters.map((each) => each.name).join(' ')} ${route.answers
      .map((each) => each.description)
      .join(' ')}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Put parameters into the path and the query of a route. */
export function targetOf(route: Route, given: Record<string, string>): string {
  const path = route.path.replace(/\{([^}]+)\}/g, (_, name: string) => encodeURIComponent(given[`path ${name}`] ?? ''));
  const query = new URLSearchParams();
  for (const each of route.parameters) {
    const value = given[`query ${each.name}`];
    if (each.in === 'query' && value) query.set(each.name, value);
  }
  const search = query.toString();
  return search ? `${path}?${search}` : path;
}
