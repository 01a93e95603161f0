export async function runIsolator() {}
export async function runIntegrator() {}
