// `{remote, branch, credentialEnv?, author?: {name, email}}`, read strictly; the words are those of the
// binary. A token in a URL is never repeated.

const KEYS = ['remote', 'branch', 'credentialEnv', 'author'];
const AUTHOR_KEYS = ['name', 'email'];

/** `{ok: true, reference}` with a copy that nobody else can change, or `{ok: false, reason}`. */
export function readReference(raw) {
  const reason = fault(raw);
  if (reason !== undefined) {
    return { ok: false, reason };
  }
  const reference = { remote: raw.remote, branch: raw.branch };
  if (raw.credentialEnv !== undefined) {
    reference.credentialEnv = raw.credentialEnv;
  }
  if (raw.author !== undefined) {
    reference.author = Object.freeze({ name: raw.author.name, email: raw.author.email });
  }
  return { ok: true, reference: Object.freeze(reference) };
}

function fault(raw) {
  if (!isTable(raw)) {
    return 'a git reference must be an object';
  }
  const unknown = Object.keys(raw).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    return `unknown key "${unknown}" — a git reference has remote, branch, credentialEnv, author`;
  }
  for (const key of ['remote', 'branch']) {
    if (raw[key] === undefined) {
      return `missing "${key}" — a git reference has remote, branch`;
    }
  }
  for (const key of ['remote', 'branch', 'credentialEnv']) {
    if (raw[key] !== undefined && !isText(raw[key])) {
      return `"${key}" must be a non-empty string`;
    }
  }
  return authorFault(raw.author);
}

function authorFault(author) {
  if (author === undefined) {
    return undefined;
  }
  const keys = isTable(author) ? Object.keys(author) : [];
  if (keys.length !== AUTHOR_KEYS.length || !AUTHOR_KEYS.every((key) => keys.includes(key))) {
    return '"author" must be { name, email }';
  }
  const blank = AUTHOR_KEYS.find((key) => !isText(author[key]));
  return blank === undefined ? undefined : `"author.${blank}" must be a non-empty string`;
}

function isTable(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function isText(value) {
  return typeof value === 'string' && value.trim() !== '';
}
