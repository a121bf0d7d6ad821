/**
 * The seed of every test that draws its cases: fixed, so that the same commit gives the same answer everywhere.
 * `UMBRA_TEST_SEED=random` draws another one, `UMBRA_TEST_SEED=7` repeats a run.
 */
const given = process.env.UMBRA_TEST_SEED ?? "1"

export const seed = given === "random" ? Math.floor(Math.random() * 2 ** 31) : Number(given)
