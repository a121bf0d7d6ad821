/** An action that imports the command's code and calls it; what it returns is the exit code. */
export function run<M, Name extends keyof M>(load: () => Promise<M>, name: Name) {
  // The last argument is the command itself.
  return async (...given: unknown[]): Promise<void> => {
    const command = (await load())[name] as (...given: unknown[]) => Promise<number>
    process.exitCode = await command(...given.slice(0, -1))
  }
}
