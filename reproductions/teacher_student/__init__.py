"""The teacher-student model of Clarte, Loureiro, Krzakala, Zdeborova (2023), section 5 and appendix B.

Inputs x ~ N(0, I/d), a teacher w* ~ N(0, I), labels +-1 with P(y = 1 | x) = s*(w*.x); the student
minimises sum -ln sigmoid(y w.x) + (ridge/2) |w|^2 on n = alpha d rows and says sigmoid(w.x/T).
``theory`` has its limit of large d, ``simulation`` models of a finite d.
"""
