(* lf.lem3.2a: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 3.2, first part.
   |g_t^a(x_i)| <= |g_t^b(x_i)| for all x_i: freezing shortens every gradient, so that the trainable part of each clipped one grows. *)
From kernel Require Import definitions lemmas.

(* an example's gradient: the trainable part, and the part of the layers that are frozen *)
Definition sample : Type := vec * vec.
Definition full (g : sample) : vec := fst g ++ snd g.
Definition part (C : R) (whole own : vec) : vec := scale (Rmin 1 (C / norm whole)) own.   (* own share of a gradient clipped as a whole *)
Definition before (C : R) (g : sample) : vec := part C (full g) (fst g).
Definition after (C : R) (g : sample) : vec := part C (fst g) (fst g).
Definition printed : Prop := forall C g, 0 < C ->
  norm (fst g) <= norm (full g) /\ norm (before C g) <= norm (after C g).

Lemma shorter (g : sample) : norm (fst g) <= norm (full g).
Proof. apply square_le_norm_le. unfold full. rewrite square_app. pose proof (square_nonneg (snd g)). lra. Qed.
(* the factor of a clipped gradient does not fall *)
Lemma factor C g : 0 < C -> 0 < norm (fst g) -> 0 <= Rmin 1 (C / norm (full g)) <= Rmin 1 (C / norm (fst g)).
Proof.
  intros C0 n0. pose proof (shorter g). assert (0 < C / norm (full g)) by (apply Rdiv_lt_0_compat; lra).
  assert (C / norm (full g) <= C / norm (fst g)) by (apply Rmult_le_compat_l; [lra | apply Rinv_le_contravar; lra]).
  split; [apply Rmin_glb; lra|]. apply Rmin_glb; [apply Rmin_l | eapply Rle_trans; [apply Rmin_r | assumption]].
Qed.
Theorem printed_holds : printed.
Proof.
  intros C g C0. split; [apply shorter|]. unfold before, after, part. rewrite !norm_scale. pose proof (norm_nonneg (fst g)) as n0.
  destruct (Req_dec (norm (fst g)) 0) as [z|nz]; [rewrite z; lra|]. destruct (factor C g C0 ltac:(lra)).
  apply Rmult_le_compat_r; [exact n0|]. rewrite !Rabs_pos_eq by lra. assumption.
Qed.
