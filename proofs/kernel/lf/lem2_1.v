(* lf.lem2.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 2.1, the descent lemma.
   If grad f is Lipschitz with the constant L, then f(v) <= f(u) + <grad f(u), v - u> + (L/2)|v - u|^2. *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall d L f g u v, 0 <= L -> smooth d L f g -> length u = d -> length v = d ->
  f v <= f u + dot (g u) (sub v u) + L / 2 * square (sub v u).

Lemma line_sub u v : length u = length v -> add u (scale 1 (sub v u)) = v.
Proof. revert v; induction u as [|a u IH]; intros [|b v] l; try discriminate; [reflexivity|]. unfold add, sub, scale in *. simpl.
  rewrite IH by (simpl in l; lia). f_equal. ring. Qed.
Lemma line_start u z : length u = length z -> add u (scale 0 z) = u.
Proof. revert z; induction u as [|a u IH]; intros [|b z] l; try discriminate; [reflexivity|]. unfold add, scale in *. simpl.
  rewrite IH by (simpl in l; lia). f_equal. ring. Qed.
Lemma line_move u z s t : length u = length z -> add (add u (scale s z)) (scale t z) = add u (scale (s + t) z).
Proof. revert z; induction u as [|a u IH]; intros [|b z] l; try discriminate; [reflexivity|]. unfold add, scale in *. simpl.
  rewrite IH by (simpl in l; lia). f_equal. ring. Qed.
Lemma line_diff u z t : length u = length z -> sub (add u (scale t z)) u = scale t z.
Proof. revert z; induction u as [|a u IH]; intros [|b z] l; try discriminate; [reflexivity|]. unfold add, sub, scale in *. simpl.
  rewrite IH by (simpl in l; lia). f_equal. ring. Qed.
Theorem printed_holds : printed.
Proof.
  intros d L f g u v L0 [[gl gd] lip] eu ev. set (z := sub v u). assert (ez : length z = d) by (unfold z; rewrite length_sub; congruence).
  set (phi := fun t => f (add u (scale t z)) - t * dot (g u) z - L / 2 * t ^ 2 * square z).
  set (phi' := fun t => dot (g (add u (scale t z))) z - dot (g u) z - L * t * square z).
  assert (lt : forall t, length (add u (scale t z)) = d) by (intro; rewrite length_add; rewrite ?length_scale; congruence).
  assert (der : forall t, derivable_pt_lim phi t (phi' t)).
  { intro t. unfold phi, phi'.
    apply derivable_pt_lim_minus; [apply derivable_pt_lim_minus|].
    - intros eps e0. destruct (gd (add u (scale t z)) z (lt t) ez eps e0) as [del h]. exists del. intros k k0 kd.
      specialize (h k k0 kd). rewrite Rplus_0_l, line_move in h by congruence. rewrite line_start in h by (rewrite lt; congruence). exact h.
    - pose proof (derivable_pt_lim_scal_right id t 1 (dot (g u) z) (derivable_pt_lim_id t)) as k. rewrite Rmult_1_l in k. exact k.
    - pose proof (derivable_pt_lim_scal_right _ _ _ (square z) (derivable_pt_lim_scal _ (L / 2) _ _ (derivable_pt_lim_pow t 2))) as k.
      replace (L / 2 * (INR 2 * t ^ Init.Nat.pred 2) * square z) with (L * t * square z) in k by (simpl; field). exact k. }
  assert (neg : forall t, 0 <= t -> phi' t <= 0).
  { intros t t0. unfold phi'. pose proof (cauchy_schwarz (sub (g (add u (scale t z))) (g u)) z) as c.
    rewrite dot_sub in c by (rewrite !gl by (try apply lt; exact eu); reflexivity).
    pose proof (lip (add u (scale t z)) u (lt t) eu) as l. rewrite line_diff, norm_scale, Rabs_pos_eq in l by (try exact t0; congruence).
    pose proof (norm_nonneg z). rewrite <- norm_norm.
    assert (norm (sub (g (add u (scale t z))) (g u)) * norm z <= L * (t * norm z) * norm z) by (apply Rmult_le_compat_r; assumption). lra. }
  destruct (MVT_cor2 phi phi' 0 1 Rlt_0_1 (fun c _ => der c)) as (c & e & c0 & c1).
  assert (phi 1 <= phi 0) by (specialize (neg c ltac:(lra)); lra). unfold phi in H.
  rewrite line_start in H by congruence. unfold z in H at 1. rewrite line_sub in H by congruence. simpl in H. lra.
Qed.
