"""Why some functions do not take Tensors (coverage.py): said in docs/numpy.md, function by function."""

from __future__ import annotations

_REASONS = {
    "dates": "busday_count busday_offset datetime_as_string is_busday isnat",
    "about memory, which no Tensor shows; ask it of `x.value`": "may_share_memory shares_memory",
    "files hold numbers: save `x.value`": "save savetxt savez savez_compressed",
    "solves for a parameter": (
        "bdtrik bdtrin btdtria btdtrib chdtriv fdtridfd gdtrib nbdtrik nbdtrin pdtrik stdtridf"
    ),
    "a noncentral distribution: SciPy has no such density": (
        "chndtr chndtridf chndtrinc chndtrix ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc "
        "nctdtr nctdtridf nctdtrinc nctdtrit"
    ),
    "SciPy has no such density": "kolmogi kolmogorov smirnov smirnovi tklmbda",
    "its derivatives are 0/0 where arguments are equal; see `ellipkinc`": (
        "elliprc elliprd elliprf elliprg elliprj"
    ),
    "its slope is a quotient that cancels at 0": "it2i0k0 it2j0y0 it2struve0",
    "its slope is 0/0 at ±1; see `eval_legendre`": "lpmv",
    "in its one argument `zeta` has no derivative here": "zetac",
    "scale `airy` yourself": "airye",
    "take the logarithm of `wright_bessel`": "log_wright_bessel",
    "not written yet: rarely asked for": (
        "besselpoly modfresnelm modfresnelp pbdv pbvv pbwa mathieu_a mathieu_b mathieu_cem "
        "mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 mathieu_sem "
        "obl_ang1 obl_ang1_cv obl_cv obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv "
        "pro_ang1 pro_ang1_cv pro_cv pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv"
    ),
}
REASONS = {name: why for why, names in _REASONS.items() for name in names.split()}
