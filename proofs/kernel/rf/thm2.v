(* rf.thm2: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Theorem 2 (eq. 4).
   DP-SGD with random freeze on a G-smooth L, p~ symmetric: there is kappa >= 1 - r with (1/T) sum P(|xi| < C/4) h(grad w_t)|grad w_t|
   <= (1/kappa)(Delta_L/(gamma T) + gamma Delta_C + (1 - r) gamma Delta_DP - (1/T) sum E_m b_t), h(v) = min(|v|, 3C/4), Delta_C = G C^2 / 2. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.thm3_2 rs.thm3_4.
(* The case sigma = 0, which the theorem does not exclude, without deviation (see rs.thm3.4), with P = 1 and b_t = 0. *)
Definition h (C : R) (v : vec) : R := Rmin (norm v) (3 * C / 4).
Definition Delta_DP (C sigma d G B : R) : R := C ^ 2 * sigma ^ 2 * d * G / (2 * B ^ 2).
Definition printed : Prop := forall d k C G B gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 1 <= B -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  exists kappa, share d k <= kappa /\
  E q (fun m => / INR T * total (map (fun t => let v := g (clipped_run C g gamma m w t) in h C v * norm v) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2) + share d k * gamma * Delta_DP C 0 (INR d) G B).

(* one of two entries, the same in all steps: (1, 1) on |w|^2 / 2, C = 6, T = 450, gamma = 1/90: at least 1 on the left, at most 4/5 on the right *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct (claim 2%nat 1%nat 6 1 1 (1 / 90) _ _ 0 held [1; 1] 450%nat ltac:(lia) ltac:(lra) Rlt_0_1 ltac:(lra) ltac:(lra) ltac:(lia)
    (quadratic_smooth 2) (quadratic_least 2) held_uniform eq_refl) as (kappa & k0 & le).
  change (E held (mean_left (3 * 6 / 4)) <= 1 / kappa * ((square [1; 1] / 2 - 0) / (1 / 90 * INR 450) + 1 / 90 * (1 * 6 ^ 2 / 2)
    + share 2 1 * (1 / 90) * Delta_DP 6 0 (INR 2) 1 1)) in le.
  replace (Delta_DP 6 0 (INR 2) 1 1) with 0 in le by (unfold Delta_DP; simpl; field). rewrite Rmult_0_r, Rplus_0_r in le.
  rewrite held_value, n450, start_loss in le.
  pose proof (left_side (3 * 6 / 4) _ ltac:(lra) (or_introl eq_refl)) as a. pose proof (left_side (3 * 6 / 4) _ ltac:(lra) (or_intror (or_introl eq_refl))) as b.
  set (A := mean_left (3 * 6 / 4) (fun _ => [true; false])) in *. set (B := mean_left (3 * 6 / 4) (fun _ => [false; true])) in *. clearbody A B.
  assert (s : share 2 1 = 1 / 2) by (unfold share; simpl; field). rewrite s in k0.
  assert (1 / kappa <= 2). { apply (Rmult_le_reg_r kappa); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (0 < 1 / kappa) by (apply Rdiv_lt_0_compat; lra). nra.
Qed.
