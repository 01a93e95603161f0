// Text for messages, as the binary writes it.

/** For a message of one line: control characters as `?`. */
export function plain(text) {
  return text.replace(/\p{Cc}/gu, '?');
}

/** Several lines in one, without control characters. */
export function oneLine(text) {
  const lines = text.split(/\r?\n/).map((line) => line.trim()).filter((line) => line !== '');
  return lines.join('; ').replace(/\p{Cc}/gu, '');
}

/** Whether there is nothing but white space. */
export function isBlank(text) {
  return /^\p{White_Space}*$/u.test(text);
}
